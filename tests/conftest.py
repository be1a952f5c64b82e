"""Where a caller made this process ignore SIGINT, its children would too, and no test could interrupt them."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
