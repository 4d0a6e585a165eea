"""Reads the symbols of untrusted object files (ELF) with bounds checks: LLVM's linker may abort on a corrupt one."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_HEADER = struct.Struct("<4sBBBBB7xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_UNDEFINED, _RESERVED = 0, 0xFF00


class CodeError(ValueError):
    """A corrupt object file."""


def functions(objects: Iterable[bytes]) -> set[str]:
    """The symbols that object files define. Raises CodeError for one whose tables exceed it."""
    found: set[str] = set()
    for code in objects:
        try:
            found |= _symbols(code)
        except CodeError:
            raise
        except (struct.error, IndexError, ValueError, OverflowError) as why:
            raise CodeError(f"its machine code is no object file: {why}") from why
    return found


def _symbols(code: bytes) -> set[str]:
    magic, bits, order, _, _, _, kind, _, _, _, _, at, _, _, _, _, size, count, names = _HEADER.unpack_from(code)
    if (magic, bits, order, kind, size) != (b"\x7fELF", 2, 1, 1, _SECTION.size) or names >= count:
        raise CodeError("its machine code is no object file")
    sections = [_SECTION.unpack_from(code, at + k * size) for k in range(count)]
    out: set[str] = set()
    symbols = 0
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind != _NOBITS and offset + length > len(code):
            raise CodeError("its machine code is cut off")
        if link >= count:
            raise CodeError("its machine code names a section that is not there")
        if kind == _SYMTAB:
            symbols = length // _SYMBOL.size
            texts = code[sections[link][4] : sections[link][4] + sections[link][5]]
            for k in range(symbols):
                name, _, _, section, _, _ = _SYMBOL.unpack_from(code, offset + k * _SYMBOL.size)
                if name >= len(texts) or (section >= count and section < _RESERVED):
                    raise CodeError("its machine code has a symbol without a place")
                if section != _UNDEFINED:
                    out.add(texts[name : texts.index(b"\0", name)].decode())
    for _, kind, _, _, offset, length, _, into, _, _ in sections:
        if kind != _RELA:
            continue
        if into >= count:
            raise CodeError("its machine code changes a section that is not there")
        for k in range(length // _RELOCATION.size):
            place, info, _ = _RELOCATION.unpack_from(code, offset + k * _RELOCATION.size)
            if place >= sections[into][5] or info >> 32 >= symbols:
                raise CodeError("its machine code changes what is not there")
    return out
