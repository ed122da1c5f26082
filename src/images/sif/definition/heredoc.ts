/** Returns the instruction that writes a text to a file unchanged. The path must not contain blanks. */
export function writeFile(path: string, text: string, mode?: '755'): string {
  const whole = text.endsWith('\n') || text === '' ? text : `${text}\n`;
  const end = endMark(whole);
  const flags = mode === undefined ? '' : `--chmod=${mode} `;
  return `COPY ${flags}<<'${end}' ${path}\n${whole}${end}`;
}

/** A line that the text does not contain, whatever a reader accepts as the end of a line. */
function endMark(text: string): string {
  const lines = new Set(text.split('\n').map(line => line.trim()));
  let mark = 'END';
  while (lines.has(mark)) mark += '_';
  return mark;
}
