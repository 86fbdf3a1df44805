"""Parts of addresses."""

from django.urls.converters import PathConverter


class FileConverter(PathConverter):
    """The path of a file, in which every character may stand, also the end of a line."""

    regex = "(?s:.+)"
