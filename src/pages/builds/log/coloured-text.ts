import Anser from 'anser';
import { withoutHidden } from '../../frame/formats.ts';
import { type Html, html } from '../../frame/html.ts';

// A line with more colours has the others in the log only: each is an element.
const mostPieces = 40;

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

/**
 * Returns a line of a log with its colours as classes: no text is hidden, and every colour is readable on its ground.
 *
 * @param coloured text with sequences for colours, and no others
 * @param most characters that are shown; the rest is cut
 */
export function colouredText(coloured: string, most: number): Html {
  if (!coloured.includes('\u001b')) return html`${withoutHidden(coloured.slice(0, most))}`;
  const pieces = Anser.ansiToJson(coloured, { json: true, remove_empty: true });
  const shown = pieces.slice(0, mostPieces);
  const rest = pieces.slice(mostPieces).map(({ content }) => content);
  let left = most;
  const cut = (text: string) => {
    const part = text.slice(0, left);
    left -= part.length;
    return withoutHidden(part);
  };
  return html`${shown.map(piece => {
    const text = cut(piece.content);
    if (text === '') return undefined;
    const classes = classesOf(piece);
    return classes === '' ? text : html`<span class="${classes}">${text}</span>`;
  })}${cut(rest.join(''))}`;
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
  for (const [name, ...own] of palette) {
    const away = (own[0] - red) ** 2 + (own[1] - green) ** 2 + (own[2] - blue) ** 2;
    if (away < least) [nearest, least] = [name, away];
  }
  return nearest;
}
