import { StringDecoder } from 'node:string_decoder';
import { styleText } from 'node:util';
import { terminalLines } from '../../foundation/text/terminal-text.ts';
import { BuildSteps } from './build-steps.ts';
import { type FrameOptions, frameOf, type Look, lastFrameOf } from './frame.ts';

/** Shows the log of a build. */
export interface ProgressDisplay {
  /** Shows the next bytes of the log. */
  write(piece: Uint8Array): void;
  /** Shows how the build ended; undefined for a build that continues. */
  end(succeeded: boolean | undefined): void;
}

const redrawMs = 100;
// Moves the cursor up and clears below it. Long lines are cut, not wrapped.
const up = (lines: number) => (lines > 0 ? `\x1b[${lines}A\x1b[J` : '');
const wrapOff = '\x1b[?7l\x1b[?25l';
const wrapOn = '\x1b[?7h\x1b[?25h';

/** Redraws steps in place on a terminal, and prints the lines of the log elsewhere. */
export function progressDisplay(sink: NodeJS.WriteStream, isPlain: boolean): ProgressDisplay {
  const isTerminal = sink.isTTY && process.env.TERM !== 'dumb';
  return isTerminal && !isPlain ? liveDisplay(sink) : plainDisplay(sink);
}

function plainDisplay(sink: NodeJS.WriteStream): ProgressDisplay {
  return {
    write(piece) {
      sink.write(piece);
    },
    end() {},
  };
}

function liveDisplay(sink: NodeJS.WriteStream): ProgressDisplay {
  const beganMs = Date.now();
  const build = new BuildSteps();
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let height = 0;
  const options = (): FrameOptions => ({
    nowMs: Date.now(),
    beganMs,
    columns: sink.columns || 80,
    rows: (sink.rows || 24) - 1,
    style: (look: Look, text: string) => styleText(look, text, { stream: sink }),
  });
  const textOf = (lines: readonly string[]) => lines.map(line => `${line}\n`).join('');
  const redraw = () => {
    const lines = frameOf(build, options());
    sink.write(`${up(height)}${wrapOff}${textOf(lines)}${wrapOn}`);
    height = lines.length;
  };
  redraw();
  const timer = setInterval(redraw, redrawMs);
  return {
    write(piece) {
      const lines = (rest + decoder.write(Buffer.from(piece))).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) build.take(line, Date.now());
    },
    end(succeeded) {
      clearInterval(timer);
      if (rest !== '') build.take(rest, Date.now());
      if (succeeded === undefined) return redraw();
      const messages = build.messages.flatMap(text => terminalLines(text).split('\n'));
      const lines = [
        ...lastFrameOf(build, succeeded, options()),
        ...(succeeded ? [] : ['', ...messages]),
      ];
      // Wrapped, not cut: the messages say why the build failed.
      sink.write(`${up(height)}${textOf(lines)}`);
    },
  };
}
