"""Order of the gallery, by task."""

ORDER = (
    "plot_csv_to_lists.py",
    "plot_votes.py",
    "plot_likes_only.py",
    "plot_avoid_dislikes.py",
    "plot_new_users.py",
    "plot_missing_not_at_random.py",
    "plot_uncertainty.py",
    "plot_compare_systems.py",
    "plot_extend.py",
)


class ByTask:
    """Sort key of file names; an unlisted file is an error."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        return ORDER.index(name)
