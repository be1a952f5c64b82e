"""Chat models: anthropic, openai, OpenAI-compatible servers, scripted; usage, prices, and who retries what."""
