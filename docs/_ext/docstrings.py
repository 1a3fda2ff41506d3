"""Rendering of docstrings: formulas verbatim, without scikit-learn's own methods."""
# ruff: noqa: ARG001 - handlers have the signature of the event


def show_formulae(app, what, name, obj, options, lines):
    """Turn indented paragraphs above the first section of a docstring into literal blocks."""
    sections = [n for n, line in enumerate(lines) if line.startswith("---")]
    last = sections[0] - 1 if sections else len(lines)
    shown, before = [], "::"
    for line in lines[:last]:
        starts_block = line.startswith("    ") and before and not before.startswith(" ")
        if starts_block and not shown[-1].strip() and not before.endswith("::"):
            shown += ["::", ""]
        shown.append(line)
        before = line if line.strip() else before
    lines[:last] = shown


def skip_metadata_requests(app, what, name, obj, skip, options):
    """Skip the methods for routing metadata that scikit-learn adds to every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def hide_empty_signature(app, what, name, obj, options, signature, annotation):
    """Hide the signature of protocols, which have no constructor."""
    return ("", None) if getattr(obj, "_is_protocol", False) else None


def setup(app):
    app.connect("autodoc-process-docstring", show_formulae, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", hide_empty_signature)
    app.connect("autodoc-skip-member", skip_metadata_requests)
    return {"parallel_read_safe": True}
