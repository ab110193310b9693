"""Header sections of HTTP/2 as bytes: HPACK (RFC 7541). Pure.

What is sent refers to the static table alone, so that no state is kept for it, and is marked as never to be indexed: a
peer that forwards it treats secrets as their sender wished. What arrives may use all of HPACK.
"""

from __future__ import annotations

from collections import deque

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

Fields = list[tuple[bytes, bytes]]
"""Header fields in their order, pseudo-headers first."""

NO_TABLE = b"\x20"
"""What a sender puts before its first header section: that it uses no table of its own."""

_TABLE_BYTES = 4096
"""The size of the table of a peer: the default of the protocol."""

_ENTRY_BYTES = 32
"""What an entry takes besides its name and value."""

_STATIC: dict[int, tuple[bytes, bytes]] = dict(enumerate(HeaderTable.STATIC_TABLE, 1))
"""The entries of the protocol by their numbers."""

_OWN = len(_STATIC) + 1
"""The number of the latest entry of a peer's own table; earlier ones follow."""


def _integer(value: int, mask: int, first: int = 0) -> bytes:
    """A number whose first byte has the bits of `mask` for it, and those of `first`."""
    if value < mask:
        return bytes([first | value])
    content = bytearray([first | mask])
    value -= mask
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    content.append(value)
    return bytes(content)


_WHOLE = {field: bytes([0x80 | index]) for index, field in _STATIC.items()}
_NAMES: dict[bytes, bytes] = {}
for _index, (_name, _) in _STATIC.items():
    _NAMES.setdefault(_name, _integer(_index, 0x0F, 0x10))
_SIZES = [_integer(size, 0x7F) for size in range(256)]


def encoded(fields: Fields) -> bytes:
    """A header section as it is sent."""
    pieces = []
    for field in fields:
        whole = _WHOLE.get(field)
        if whole is not None:
            pieces.append(whole)
            continue
        name, value = field
        known = _NAMES.get(name)
        pieces.append(b"\x10" if known is None else known)
        for text in (name, value) if known is None else (value,):
            size = len(text)
            pieces += (_SIZES[size] if size < len(_SIZES) else _integer(size, 0x7F), text)
    return b"".join(pieces)


class HeaderDecoder:
    """Reads the header sections of one peer, in order."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: the largest size of a header section (RFC 9113, section 6.5.2)."""
        self._max_bytes = max_bytes
        self._table: deque[tuple[bytes, bytes]] = deque()
        self._table_bytes = 0
        self._most_bytes = _TABLE_BYTES

    def decode(self, block: bytes) -> Fields:
        """The fields of a section. Raises ValueError, after which no other section can be read."""
        fields: Fields = []
        at, end, left, table = 0, len(block), self._max_bytes, self._table
        try:
            while at < end:
                first = block[at]
                if first & 0x80:
                    index, at = (first & 0x7F, at + 1) if first < 0xFF else _read_integer(block, at, 0x7F)
                    field = table[index - _OWN] if index >= _OWN else _STATIC[index]
                elif first & 0xE0 == 0x20:
                    size, at = _read_integer(block, at, 0x1F)
                    if fields or size > _TABLE_BYTES:
                        raise ValueError("the size of the header table changes within a section, or is too large")
                    self._most_bytes = size
                    self._shrink()
                    continue
                else:
                    mask = 0x3F if first & 0x40 else 0x0F
                    index, at = (first & mask, at + 1) if first & mask < mask else _read_integer(block, at, mask)
                    if index:
                        name = (table[index - _OWN] if index >= _OWN else _STATIC[index])[0]
                    else:
                        name, at = _read_text(block, at)
                    value, at = _read_text(block, at)
                    field = name, value
                    if first & 0x40:
                        table.appendleft(field)
                        self._table_bytes += len(name) + len(value) + _ENTRY_BYTES
                        self._shrink()
                fields.append(field)
                left -= len(field[0]) + len(field[1]) + _ENTRY_BYTES
                if left < 0:
                    raise ValueError(f"a header section has more than {self._max_bytes} bytes")
        except LookupError:
            raise ValueError("a header section is cut off, or names an entry that there is not") from None
        return fields

    def _shrink(self) -> None:
        while self._table_bytes > self._most_bytes:
            name, value = self._table.pop()
            self._table_bytes -= len(name) + len(value) + _ENTRY_BYTES


def _read_integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError, ValueError."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, 28, 7):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number in a header section is too large")


def _read_text(block: bytes, at: int) -> tuple[bytes, int]:
    """A name or value, and where it ends. Raises IndexError, ValueError."""
    first = block[at]
    size, at = (first & 0x7F, at + 1) if first & 0x7F < 0x7F else _read_integer(block, at, 0x7F)
    stop = at + size
    if stop > len(block):
        raise IndexError
    if not first & 0x80:
        return block[at:stop], stop
    try:
        return decode_huffman(block[at:stop]), stop
    except HPACKDecodingError as error:
        raise ValueError(str(error)) from None
