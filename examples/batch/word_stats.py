"""Words of one text: how many, how different, which most often. Usage: word_stats.py FILE"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

COMMON_LENGTH_MAX = 3
"""Words so short say little; they are left out of `most_often`."""

text = Path(sys.argv[1]).read_text(encoding="utf-8")
words = re.findall(r"[a-z']+", text.lower())
sentences = [part for part in re.split(r"[.!?]+\s", text) if part.strip()]
top = Counter(word for word in words if len(word) > COMMON_LENGTH_MAX).most_common(3)
print(
    json.dumps(
        {
            "file": sys.argv[1],
            "words": len(words),
            "different": len(set(words)),
            "words_a_sentence": round(len(words) / len(sentences), 1),
            "most_often": dict(top),
        }
    )
)
