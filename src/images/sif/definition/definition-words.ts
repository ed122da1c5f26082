/** A word of a shell script, with its quotes taken off. */
export interface ShellWord {
  readonly text: string;
  /** False where a quote or backslash keeps the shell from reading the word as a keyword or assignment. */
  readonly isPlain: boolean;
  /** The word after `>`, `>>`, `1>` or `2>`, to which the command writes. */
  readonly isTarget: boolean;
}

/** A simple command of a script. */
export interface ShellCommand {
  readonly words: readonly ShellWord[];
  /** Counted from 0. */
  readonly line: number;
}

/**
 * Returns the simple commands of a shell script that consists of words, quotes, variables, lists, and output to files.
 * Otherwise returns the line, counted from 0, of the first other element.
 * Source: POSIX.1-2017, Shell 2.3.
 */
export function simpleCommands(script: string): readonly ShellCommand[] | number {
  const commands: ShellCommand[] = [];
  let words: ShellWord[] = [];
  let isTarget = false;
  let line = 0;
  const token =
    /(\n)|([ \t\r]+|\\\n|#[^\n]*|[12]?>&[12](?=[\s;]|$))|(&&|\|\||;)|([12]?>>?)|((?:\$\{\w+\}|\\[^\n]|'[^']*'|"(?:\\[\s\S]|[^"\\])*"|[^\s;&|<>()`{}'"\\#]|(?<=\S)#)+)/y;
  while (token.lastIndex < script.length) {
    const match = token.exec(script);
    if (match === null) return line;
    const [whole, newline, blank, separator, output, word] = match;
    if (newline ?? separator) {
      if (isTarget) return line;
      if (words.length > 0) commands.push({ words, line });
      words = [];
    } else if (output !== undefined) {
      isTarget = true;
    } else if (word !== undefined) {
      if (/\$\(|`/.test(word)) return line;
      words.push({ text: unquoted(word), isPlain: !/["'\\]/.test(word), isTarget });
      isTarget = false;
    } else if (blank === undefined) {
      return line;
    }
    line += whole.split('\n').length - 1;
  }
  if (isTarget) return line;
  if (words.length > 0) commands.push({ words, line });
  return commands;
}

function unquoted(word: string): string {
  return word.replace(
    /\\([\s\S])|'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"/g,
    (_, escaped?: string, single?: string, double?: string) =>
      escaped ?? single?.replaceAll('$', '\\$') ?? double?.replace(/\\(["\\`])/g, '$1') ?? '',
  );
}
