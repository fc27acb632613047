AMONG = ("sequence", "vocabulary")
VARIABLES = {"minilm": "REGARD_MINILM", "stories": "REGARD_STORIES", "translator": "REGARD_TRANSLATOR"}
def write(work, out): pass
