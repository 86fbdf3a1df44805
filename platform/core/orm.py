"""What every model shares."""

from django.db import models

from core import clock, ids


class BaseModel(models.Model):
    """A row with a prefixed, sortable id and its time of creation. Subclasses set `id_prefix`."""

    id_prefix = "row"

    id = models.CharField(primary_key=True, max_length=32, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False, db_index=True)

    class Meta:
        abstract = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.id:
            self.id = ids.new_id(self.id_prefix, now_ms=clock.now_ms())
