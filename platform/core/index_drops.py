"""Migrations that drop the index of a column in place: Django's own copies the whole table for that on SQLite."""

from typing import Any

from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations import AlterField
from django.db.migrations.state import ProjectState
from django.db.models import Index


class DropIndex(AlterField):
    """Make the field what it is now, where it only lost its index. Backwards it is altered as usual."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,  # noqa: ARG002 (Django's signature)
        to_state: ProjectState,
    ) -> None:
        """Drop each index of the column alone but those that the model names."""
        editor: Any = schema_editor
        model = to_state.apps.get_model(app_label, self.model_name)
        column = model._meta.get_field(self.name).column
        names = {index.name for index in model._meta.indexes}
        for name in editor._constraint_names(model, [column], index=True, type_=Index.suffix, exclude=names):  # noqa: SLF001
            editor.execute(editor._delete_index_sql(model, name))  # noqa: SLF001

    def database_backwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        """Make the indexes again."""
        super().database_forwards(app_label, schema_editor, from_state, to_state)
