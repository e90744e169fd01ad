"""What lies where a model's file should, told from its first bytes: a pointer, a page, a download that never ended.

Such files have the right name, and what a reader of the format says of them ("a header of 2336927755350992246 bytes")
helps nobody.
"""

HEAD_BYTES = 64
"""How many of the first bytes are enough."""

_LFS = b"version https://git-lfs"
_PAGES = (b"<!doctype html", b"<html", b"<?xml")
_TORCH = (b"PK\x03\x04", b"\x80\x02")
_GGUF = b"GGUF"


def mistaken(begin: bytes) -> str | None:
    """What the file that begins so is, and what to do, where no file of weights or settings begins so; else None."""
    if begin.startswith(_LFS):
        return (
            "is a pointer of Git LFS, not the file itself: `git lfs pull`, in the folder it was cloned to, brings that"
        )
    if begin.lstrip().lower().startswith(_PAGES):
        return "is a page, as servers answer with errors, not the file itself: download it again"
    if len(begin) == HEAD_BYTES and not begin.strip(b"\0"):
        return "begins with zeros only, as a download that did not come to its end: download it again"
    return None


def of_another_format(begin: bytes) -> str | None:
    """The same of a file that has a tensor file's name and no header, and may be weights in another format."""
    if begin.startswith(_TORCH):
        return "is a file of torch.save, whatever its name: call it *.pt and import that"
    if begin.startswith(_GGUF):
        return "is a GGUF file, whatever its name: call it *.gguf and import that"
    return mistaken(begin)
