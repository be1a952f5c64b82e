"""Bytes inside a stream that are no reply in any of the protocols."""

GARBAGE: dict[str, bytes] = {
    "no json": b'event: message_start\ndata: {"type": "mess\n\n',
    "html": b"<html>welcome</html>",
    "no utf-8": b"event: message_start\ndata: \xff\xfe\xfa\n\n",
    "null": b"event: message_start\ndata: null\n\n",
    "number": b"event: message_start\ndata: 5\n\n",
    "list": b"event: message_start\ndata: [1, 2]\n\n",
    "shape": b'event: content_block_start\ndata: {"type": "content_block_start", "index": "x", "choices": 5}\n\n',
    "orphan": b'event: content_block_delta\ndata: {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}\n\n',
    "item": b'event: response.output_item.done\ndata: {"type": "response.output_item.done", "output_index": 0, "item": 5}\n\n',
}
