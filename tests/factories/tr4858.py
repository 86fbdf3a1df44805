"""The commands of TR-4858, sections 4.8 to 4.10, on two machines of eight GPUs, and what follows from each."""

TEAMS = {"team-a": 4, "team-b": 2, "team-c": 2, "team-d": 8}
FIRM = True
QUICKSTART = [
    # Section 4.8: name, team, GPUs, interactive; then what teams a, b, c and d hold and how many jobs of each wait.
    ("a-1-1-jupyter", "team-a", 1, FIRM, (1, 0, 0, 0), (0, 0, 0, 0)),
    ("a-1-g", "team-a", 1, False, (2, 0, 0, 0), (0, 0, 0, 0)),
    ("a-2-gg", "team-a", 2, False, (4, 0, 0, 0), (0, 0, 0, 0)),
    ("b-1-g06", "team-b", 0.6, FIRM, (4, 0.6, 0, 0), (0, 0, 0, 0)),
    ("b-2-g04", "team-b", 0.4, FIRM, (4, 1, 0, 0), (0, 0, 0, 0)),
    ("b-3-g", "team-b", 1, False, (4, 2, 0, 0), (0, 0, 0, 0)),
    ("b-4-gg", "team-b", 2, False, (4, 4, 0, 0), (0, 0, 0, 0)),
    ("c-1-g05", "team-c", 0.5, FIRM, (4, 4, 0.5, 0), (0, 0, 0, 0)),
    ("c-2-g03", "team-c", 0.3, FIRM, (4, 4, 0.8, 0), (0, 0, 0, 0)),
    ("c-3-g02", "team-c", 0.2, FIRM, (4, 4, 1, 0), (0, 0, 0, 0)),
    ("c-4-gg", "team-c", 2, False, (4, 4, 3, 0), (0, 0, 0, 0)),
    ("c-5-g", "team-c", 1, False, (4, 4, 4, 0), (0, 0, 0, 0)),
    ("d-1-gggg", "team-d", 4, False, (4, 4, 4, 4), (0, 0, 0, 0)),
]
BASIC_FAIRNESS = [
    # Section 4.9.
    ("d-2-gg", "team-d", 2, False, (4, 4, 2, 6), (0, 0, 1, 0)),
    ("d-3-gg", "team-d", 2, False, (4, 2, 2, 8), (0, 1, 1, 0)),
]
OVER_QUOTA_FAIRNESS = [
    # Section 4.10, up to the deletion.
    ("a-3-gg", "team-a", 2, False, (4, 2, 2, 8), (1, 1, 1, 0)),
    ("a-4-gg", "team-a", 2, False, (4, 2, 2, 8), (2, 1, 1, 0)),
    ("b-5-gg", "team-b", 2, False, (4, 2, 2, 8), (2, 2, 1, 0)),
    ("c-6-gg", "team-c", 2, False, (4, 2, 2, 8), (2, 2, 2, 0)),
]
