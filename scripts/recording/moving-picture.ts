import { type ScreenLine, TerminalScreen } from './terminal-screen.ts';

/** Output of a terminal, and when it came: seconds since the beginning. */
export type Output = readonly [seconds: number, text: string];

const size = { character: 8.43, line: 19, margin: 14, text: 14 };
const colours: Readonly<Record<string, string>> = {
  '1': 'font-weight="bold"',
  '2': 'fill="#8b98a9"',
  '31': 'fill="#ff8f87"',
  '34': 'fill="#83c0ff"',
};
/** Changes that follow each other faster are one. */
const shortestSeconds = 0.12;
const lastSeconds = 4;

/** Returns a recorded session as an SVG that moves, without scripts. Readers who want no motion see its end. */
export function movingPicture(
  outputs: readonly Output[],
  { columns, rows, title }: { columns: number; rows: number; title: string },
): string {
  const frames = framesOf(outputs, columns, rows);
  const width = Math.ceil(columns * size.character + 2 * size.margin);
  const height = rows * size.line + 2 * size.margin;
  const total = (frames.at(-1)?.at ?? 0) + lastSeconds;
  const texts = new Map<string, number>();
  const numberOf = (line: ScreenLine) => {
    const text = lineText(line);
    const known = texts.get(text) ?? texts.size;
    texts.set(text, known);
    return known;
  };
  const pictures = frames.map(({ lines }, frame) =>
    lines
      .map((line, row) =>
        line.length === 0
          ? ''
          : `<use href="#l${numberOf(line)}" y="${frame * height + (row + 1) * size.line}"/>`,
      )
      .join(''),
  );
  const steps = frames.map(
    ({ at }, frame) =>
      `${((at / total) * 100).toFixed(3)}%{transform:translateY(${-frame * height}px)}`,
  );
  const end = -(frames.length - 1) * height;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img"><title>${escaped(title)}</title>
<style>.f{animation:f ${total.toFixed(2)}s step-end infinite}@keyframes f{${steps.join('')}100%{transform:translateY(${end}px)}}@media (prefers-reduced-motion:reduce){.f{animation:none;transform:translateY(${end}px)}}text{font:${size.text}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e8edf3;white-space:pre}</style>
<defs>${[...texts].map(([text, number]) => `<text id="l${number}" x="${size.margin}">${text}</text>`).join('\n')}</defs>
<rect width="${width}" height="${height}" rx="8" fill="#101822"/>
<g class="f">${pictures.join('\n')}</g>
</svg>
`;
}

interface Frame {
  readonly at: number;
  readonly lines: readonly ScreenLine[];
}

function framesOf(outputs: readonly Output[], columns: number, rows: number): readonly Frame[] {
  const screen = new TerminalScreen(columns, rows);
  const frames: Frame[] = [{ at: 0, lines: [] }];
  for (const [at, [seconds, text]] of outputs.entries()) {
    screen.write(text);
    const next = outputs[at + 1]?.[0] ?? Number.POSITIVE_INFINITY;
    if (next - (frames.at(-1)?.at ?? 0) < shortestSeconds) continue;
    // A moment shows one picture.
    if (frames.at(-1)?.at === seconds) frames.pop();
    frames.push({ at: seconds, lines: screen.lines });
  }
  return frames;
}

/** Returns the text of a line with its colours. Each piece has its width, whatever the font of the reader. */
function lineText(line: ScreenLine): string {
  let column = 0;
  return line
    .map(({ text, look }) => {
      const x = (size.margin + column * size.character).toFixed(1);
      const length = (text.length * size.character).toFixed(1);
      column += text.length;
      if (text.trim() === '') return '';
      return `<tspan x="${x}" textLength="${length}" lengthAdjust="spacingAndGlyphs"${look === '' ? '' : ` ${colours[look] ?? ''}`}>${escaped(text)}</tspan>`;
    })
    .join('');
}

function escaped(text: string): string {
  return text.replace(/[<>&"]/g, character => `&#${character.charCodeAt(0)};`);
}
