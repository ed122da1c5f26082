import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { requireCommand } from './tools.ts';

export interface Terminal {
  /** All output, control characters included. */
  output(): string;
  /** The current lines of the screen, without a limit at the bottom. */
  screen(): string[];
  /** Presses keys: `\x03` is Ctrl-C. */
  type(keys: string): void;
  /** How the program ended. */
  readonly exitCode: Promise<number>;
}

/** Runs a program on a terminal of 24 lines of so many columns. */
export function openTerminal(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  columns = 80,
): Terminal {
  const words = command.map(word => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  const line = `stty rows 24 cols ${columns}; exec ${words}`;
  // It dies with this process, because a leftover program would keep the standard error open.
  const terminal = ['--pdeathsig', 'KILL', requireCommand('script'), '-qefc', line, '/dev/null'];
  const child = spawn(requireCommand('setpriv'), terminal, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env.PATH, TERM: 'xterm', SHELL: '/bin/sh', ...env },
  });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', chunk => {
    output += chunk;
  });
  return {
    output: () => output,
    screen: () => screenOf(output),
    type: keys => child.stdin.write(keys),
    exitCode: once(child, 'close').then(([code]) => Number(code ?? -1)),
  };
}

// Cursor up, erase below, any other control sequence, a line's end, a return, text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what drives a terminal
const piece = /\x1b\[(\d*)A|(\x1b\[J)|\x1b\[[?\d;]*[a-zA-Z]|(\n)|(\r)|([^\x1b\r\n]+)/g;

function screenOf(output: string): string[] {
  const lines = [''];
  let row = 0;
  let column = 0;
  for (const [, up, erase, end, home, text] of output.matchAll(piece)) {
    if (up !== undefined) row = Math.max(0, row - Number(up || 1));
    else if (erase !== undefined)
      lines.splice(row, lines.length, (lines[row] ?? '').slice(0, column));
    else if (end !== undefined) {
      row += 1;
      lines[row] ??= '';
    } else if (home !== undefined) column = 0;
    else if (text !== undefined) {
      const line = (lines[row] ?? '').padEnd(column);
      lines[row] = line.slice(0, column) + text + line.slice(column + text.length);
      column += text.length;
    }
  }
  return lines.map(line => line.trimEnd());
}
