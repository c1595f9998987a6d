"""A table of columns that can be converted to Arrow, pandas or polars; it loads those libraries only then."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.errors import HeadwayError

SHOWN_ROWS = 10


class Table(dict[str, NDArray[Any]]):
    """Columns of equal length by name: ``result.jobs["jct_s"].mean()``."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values()), ()))

    def to_arrow(self) -> Any:
        """A pyarrow.Table."""
        arrow = _library("pyarrow")
        return arrow.table({name: arrow.array(column.tolist()) for name, column in self.items()})

    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
        return _library("pandas").DataFrame({name: _own(column) for name, column in self.items()})

    def to_polars(self) -> Any:
        """A polars.DataFrame."""
        return _library("polars").DataFrame({name: column.tolist() for name, column in self.items()})

    def _repr_html_(self) -> str:
        from headway.report.page import escaped, table

        rows = [[escaped(column[k]) for column in self.values()] for k in range(min(SHOWN_ROWS, self.rows))]
        more = f"<p>{self.rows - SHOWN_ROWS:,} more rows</p>" if self.rows > SHOWN_ROWS else ""
        return table([escaped(name) for name in self], rows) + more

    def __repr__(self) -> str:
        return f"Table of {self.rows:,} rows: {', '.join(self)}"


def _own(column: NDArray[Any]) -> NDArray[Any]:
    """Text as Python strings, which pandas expects; numbers as they are, without the rest of the job's row."""
    return column.astype(object) if column.dtype.kind == "U" else np.ascontiguousarray(column)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise HeadwayError(f"{name} is not installed: pip install {name}, or use the columns as NumPy arrays") from None
