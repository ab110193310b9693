"""`worker`: scores turns that proxies without evaluation leave pending in a shared store."""
