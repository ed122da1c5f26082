/** Takes the match of a sticky pattern at the current position, and moves behind it; null where there is none. */
export type TakePattern = (pattern: RegExp) => RegExpExecArray | null;

/** Returns a function that takes a text apart from its start, one pattern (with the flag `y`) at a time. */
export function takePatterns(text: string): TakePattern {
  let position = 0;
  return pattern => {
    pattern.lastIndex = position;
    const match = pattern.exec(text);
    if (match) position = pattern.lastIndex;
    return match;
  };
}
