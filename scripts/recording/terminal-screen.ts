/** A character on the screen, and how it looks: its codes of colour and weight, separated by `;`. */
interface Cell {
  readonly text: string;
  readonly look: string;
}

/** A line of the screen in pieces of one look. */
export type ScreenLine = readonly { readonly text: string; readonly look: string }[];

const startOfSequence = '\x1b';
const sequence = /^\[(?<mode>\?)?(?<numbers>[\d;]*)(?<letter>[A-Za-z])/;

/** What a terminal shows. It obeys the sequences that Sluice writes, and ignores others. */
export class TerminalScreen {
  readonly #columns: number;
  readonly #rows: number;
  #lines: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #look = '';
  #wraps = true;

  constructor(columns: number, rows: number) {
    this.#columns = columns;
    this.#rows = rows;
  }

  write(text: string): void {
    for (let at = 0; at < text.length; ) {
      const found =
        text[at] === startOfSequence ? sequence.exec(text.slice(at + 1, at + 40)) : null;
      if (found) {
        this.#obey(found.groups ?? {});
        at += found[0].length + startOfSequence.length;
        continue;
      }
      const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
      this.#put(character);
      at += character.length;
    }
  }

  /** The lines that are visible. */
  get lines(): readonly ScreenLine[] {
    return this.#lines.slice(-this.#rows).map(cells => {
      const pieces: { text: string; look: string }[] = [];
      for (const { text, look } of cells) {
        const last = pieces.at(-1);
        if (last?.look === look) last.text += text;
        else pieces.push({ text, look });
      }
      return pieces;
    });
  }

  #put(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n') this.#lineFeed();
    else if (character >= ' ') {
      if (this.#column >= this.#columns) {
        if (!this.#wraps) return;
        this.#column = 0;
        this.#lineFeed();
      }
      const line = this.#lines[this.#row] ?? [];
      while (line.length < this.#column) line.push({ text: ' ', look: '' });
      line[this.#column] = { text: character, look: this.#look };
      this.#column += 1;
    }
  }

  #lineFeed(): void {
    this.#row += 1;
    if (this.#row === this.#lines.length) this.#lines.push([]);
  }

  #obey({ mode, numbers = '', letter }: Readonly<Record<string, string | undefined>>): void {
    if (mode) {
      if (numbers === '7') this.#wraps = letter === 'h';
      return;
    }
    const line = this.#lines[this.#row] ?? [];
    switch (letter) {
      case 'A':
        this.#row = Math.max(0, this.#row - Number(numbers || 1));
        this.#column = 0;
        return;
      case 'J':
        line.length = Math.min(line.length, this.#column);
        this.#lines.length = this.#row + 1;
        return;
      case 'K':
        line.length = Math.min(line.length, this.#column);
        return;
      case 'm':
        // Each of Sluice's looks ends with a code of its own, such as 22 and 39.
        this.#look = ['', '0', '22', '39'].includes(numbers) ? '' : numbers;
    }
  }
}
