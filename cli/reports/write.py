"""Write reports to files: rendered by suffix, and moved into place together with the model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opshift.cli.terminal import plain, to_json
from opshift.passes.base.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from opshift.passes.io.atomic_files import Batch


def rendered(path: Path, document: Any) -> str:
    """Return the document in the format of the file's suffix: HTML, Markdown or JSON."""
    match path.suffix.casefold():
        case ".html":
            from opshift.cli.reports.html import page

            return page(document)
        case ".md":
            from opshift.cli.reports.markdown import markdown

            return markdown(document)
    return to_json(document)


@contextlib.contextmanager
def staged(path: str | None, document: Any, *, named: str = "--report") -> Iterator[Batch]:
    """Write a report, which is moved into place only if the block succeeds.

    The batch accepts further files, and is published at the end unless the block has published it.

    Raises:
        UsageError: the report cannot be written.
    """
    from pathlib import Path

    from opshift.passes.base.errors import reason
    from opshift.passes.io.atomic_files import Batch, destination_of

    with Batch() as batch:
        if path is not None:
            place = Path(path)
            shown = f"{named} {plain(path)}".strip()
            try:
                found = destination_of(place)
                batch.draft(found.real, shown).write(rendered(place, document).encode())
            except OSError as error:
                raise UsageError(f"{shown} cannot be written: {reason(error)}.") from error
            except UsageError as error:
                raise UsageError(f"{named} {error}".strip()) from error
        yield batch
        if not batch.published:
            batch.publish()
