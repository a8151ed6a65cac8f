"""Run the upgrades on the connection that the caller passes; called by Alembic."""

from alembic import context

from slurmsched.db.schema import VERSION_TABLE
from slurmsched.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite cannot alter a table in place
    transactional_ddl=True,  # the caller's transaction holds it all, in SQLite too
)
with context.begin_transaction():
    context.run_migrations()
