"""Models of other formats, made snapshots: one file a format."""

from snapshot.imports.convert import DTYPES
from snapshot.imports.importing import Imported, import_model

__all__ = ["DTYPES", "Imported", "import_model"]
