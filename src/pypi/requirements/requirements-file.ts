/** A line of a file of requirements, without its comment and with the lines that continue it. */
export interface RequirementsLine {
  /** Number of its first line, from 1. */
  readonly number: number;
  readonly text: string;
}

/** Returns the lines of a file of requirements that are not empty. Source: pip, Requirements File Format. */
export function requirementsLines(text: string): readonly RequirementsLine[] {
  const lines: RequirementsLine[] = [];
  let parts: string[] = [];
  let number = 1;
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    if (parts.length === 0) number = at + 1;
    const isContinued = line.endsWith('\\') && !/^\s*#/.test(line);
    parts.push(withoutComment(isContinued ? line.slice(0, -1) : line).trim());
    if (isContinued) continue;
    const whole = parts.filter(part => part !== '').join(' ');
    if (whole !== '') lines.push({ number, text: whole });
    parts = [];
  }
  const rest = parts.filter(part => part !== '').join(' ');
  return rest === '' ? lines : [...lines, { number, text: rest }];
}

function withoutComment(line: string): string {
  const start = line.search(/(?:^|\s)#/);
  return start < 0 ? line : line.slice(0, start);
}

const option = /^-(?:-[a-z]|[A-Za-z])/;
const requirement =
  /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?(?![A-Za-z0-9._-])\s{0,9}(?:$|==|[[(<>!~;@]|--hash)/;
const place = /^(?:[A-Za-z+]{1,20}:\/\/|\.{0,2}\/)/;

/** Returns whether a text is a file of requirements for pip: each line is a requirement, an option, an address or a path. */
export function isRequirementsFile(text: string): boolean {
  const lines = requirementsLines(text);
  return (
    lines.length > 0 &&
    lines.every(({ text: line }) => [option, requirement, place].some(kind => kind.test(line)))
  );
}
