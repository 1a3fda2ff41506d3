"""Formulas as MathML, which browsers render without scripts or downloads."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def mathml(node, *, block):
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logger.warning("A formula cannot be rendered: %s", error, location=node)
        return node.astext()


def visit_inline(writer, node):
    writer.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(writer, node):
    writer.body.append(f'<div class="formula">{mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True}
