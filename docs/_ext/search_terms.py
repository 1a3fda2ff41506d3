"""Check that queries of readers lead to the right page first.

The search of the manual ranks an index entry that equals the query above titles and text. So each query in ``searches``
must be an index entry of its page and of no other page, and the main one.
"""

from sphinx.util import logging

logger = logging.getLogger(__name__)


def pages_with_entry(env, query):
    """Return the pages with an index entry that equals a query, and whether it is a main entry."""
    return {
        page: bool(main)
        for page, entries in env.domains["index"].entries.items()
        for _, value, _, main, _ in entries
        if value.lower() == query.lower()
    }


def check(app, env):
    for query, page in app.config.searches.items():
        found = pages_with_entry(env, query)
        if found != {page: True}:
            logger.warning("The query %r leads to %s and not to %s alone.", query, found, page)


def setup(app):
    app.add_config_value("searches", {}, "env")
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
