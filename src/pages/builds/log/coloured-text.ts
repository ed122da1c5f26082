import Anser from 'anser';
import type { LogLine } from '../../../builds/index.ts';
import { withoutHidden } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';

// The style sheet has a readable colour for each, for light and dark.
const palette: readonly (readonly [string, number, number, number])[] = [
  ['black', 0, 0, 0],
  ['red', 187, 0, 0],
  ['green', 0, 187, 0],
  ['yellow', 187, 187, 0],
  ['blue', 0, 0, 187],
  ['magenta', 187, 0, 187],
  ['cyan', 0, 187, 187],
  ['white', 187, 187, 187],
  ['grey', 85, 85, 85],
  ['red', 255, 85, 85],
  ['green', 85, 255, 85],
  ['yellow', 255, 255, 85],
  ['blue', 85, 85, 255],
  ['magenta', 255, 85, 255],
  ['cyan', 85, 255, 255],
  ['white', 255, 255, 255],
];

const decorationClasses: Readonly<Partial<Record<Anser.DecorationName, string>>> = {
  bold: 't-bold',
  italic: 't-italic',
  underline: 't-line',
  strikethrough: 't-struck',
};

/** How much of a line is shown. */
export interface LineLimits {
  /** Characters; the rest is cut. */
  readonly chars: number;
  /** Changes of colour: each is an element. The rest of the line has no colours. */
  readonly colours: number;
}

/**
 * Returns a line of a log with its colours as classes: no text is hidden, and every colour is readable on its ground.
 */
export function colouredText(
  { text: plain, coloured }: Pick<LogLine, 'text' | 'coloured'>,
  { chars, colours }: LineLimits,
): Html {
  if (!coloured.includes('\u001b')) return html`${withoutHidden(plain.slice(0, chars))}`;
  let done = 0;
  const cut = (text: string) => {
    const part = text.slice(0, chars - done);
    done += part.length;
    return withoutHidden(part);
  };
  const end = endOfColours(coloured, colours);
  // Only what is shown is read: a line may change its colour with each character.
  const pieces = Anser.ansiToJson(coloured.slice(0, end), { json: true, remove_empty: true });
  return html`${pieces.map(piece => {
    const text = cut(piece.content);
    if (text === '') return undefined;
    const classes = classesOf(piece);
    return classes === '' ? text : html`<span class="${classes}">${text}</span>`;
  })}${cut(plain.slice(done))}`;
}

/** Returns the position of the sequence after so many others. */
function endOfColours(coloured: string, most: number): number {
  let end = coloured.indexOf('\u001b');
  for (let count = 0; count < most && end >= 0; count += 1)
    end = coloured.indexOf('\u001b', end + 1);
  return end < 0 ? coloured.length : end;
}

function classesOf({ fg, bg, decorations }: Anser.AnserJsonEntry): string {
  const isReversed = decorations.includes('reverse');
  const [front, ground] = isReversed ? [bg, fg] : [fg, bg];
  // Text on a coloured ground has the colour of the page: the same contrast as coloured text on the page.
  const colour = ground ? `on-${nameOf(ground)}` : isReversed ? 'on-text' : undefined;
  const own = front ? `t-${nameOf(front)}` : decorations.includes('dim') ? 't-grey' : undefined;
  const classes = [colour ?? own, ...decorations.map(name => decorationClasses[name])];
  return [...new Set(classes)].filter(name => name !== undefined).join(' ');
}

/** Returns the name of the nearest colour of a palette that is readable in light and dark. */
function nameOf(rgb: string): string {
  const [red = 0, green = 0, blue = 0] = rgb.split(',').map(Number);
  let [nearest, least] = ['', Number.POSITIVE_INFINITY];
  for (const [name, ownRed, ownGreen, ownBlue] of palette) {
    const away = (ownRed - red) ** 2 + (ownGreen - green) ** 2 + (ownBlue - blue) ** 2;
    if (away < least) [nearest, least] = [name, away];
  }
  return nearest;
}
