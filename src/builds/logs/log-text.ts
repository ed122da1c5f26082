import { pauseTurn } from '../../foundation/pause-turn.ts';

/** Replaces secrets in a text. */
export type Mask = (text: string) => string;

// Steps whose last colour is remembered.
const maxStyles = 1000;
// A line with more changes of colour keeps the first ones.
const maxPieces = 2000;
const maxTexts = 1000;
const sliceChars = 64 * 1024;
const pauseControls = 1000;
const control = /[^\P{Cc}\t\n]/gu;
const anyControl = /[^\P{Cc}\t\n]/u;
const outputLine = /^#(\d{1,6}) \d+\.\d+ /;

/**
 * Makes the output of programs safe to keep: a line of a program stays one line, with its colours. What a program writes
 * over its own line, such as the progress of a download, is replaced by what it writes last. All other sequences for
 * terminals are removed. Each line with colours begins with its own and ends with a reset, so that lines of several
 * steps can be read in any order.
 */
export class LogText {
  /** Colours of steps whose last line did not reset them, by number. */
  readonly #styles = new Map<string, TextStyle>();

  /** Forgets the colours of steps: they are counted from 1 again. */
  restart(): void {
    this.#styles.clear();
  }

  /** Returns the text to keep. The mask is applied to what people will read. */
  async clean(text: string, mask: Mask): Promise<string> {
    let cleaned = '';
    for (let at = 0; at < text.length; ) {
      const end = text.indexOf('\n', at + sliceChars);
      const slice = mask(text.slice(at, end < 0 ? undefined : end + 1));
      const isPlain = this.#styles.size === 0 && !anyControl.test(slice);
      cleaned += isPlain ? slice : await this.#lines(slice, mask);
      at = end < 0 ? text.length : end + 1;
      await pauseTurn();
    }
    return cleaned;
  }

  async #lines(text: string, mask: Mask): Promise<string> {
    const lines: string[] = [];
    for (const line of text.split('\n')) {
      const [start = '', step] = outputLine.exec(line) ?? [];
      const style = (step && this.#styles.get(step)) || new TextStyle();
      if (style.sequence === '' && !anyControl.test(line)) {
        lines.push(line);
        continue;
      }
      lines.push(start + (await styledText(line.slice(start.length), style, mask)));
      if (step === undefined) continue;
      this.#styles.delete(step);
      if (style.sequence !== '' && this.#styles.size < maxStyles) this.#styles.set(step, style);
    }
    return lines.join('\n');
  }
}

interface Piece {
  readonly style: string;
  /** Parts of its text: one long text would be copied for each part and each backspace. */
  readonly texts: string[];
}

/** Returns what a terminal shows at the end, with colours unless the mask changes the text. */
async function styledText(line: string, style: TextStyle, mask: Mask): Promise<string> {
  const shown: { readonly style: string; readonly text: string }[] = [];
  for (const piece of await shownPieces(line, style)) {
    shown.push({ style: piece.style, text: piece.texts.join('') });
    await pauseTurn();
  }
  const plain = shown.map(({ text }) => text).join('');
  // A colour within a secret hides the secret from the mask.
  const masked = mask(plain);
  if (masked !== plain) return masked;
  let open = '';
  const texts = shown.map(one => {
    const change = one.style === open ? '' : one.style === '' ? styleReset : one.style;
    open = one.style;
    return change + one.text;
  });
  return texts.join('') + (open === '' ? '' : styleReset);
}

// Sequences after ESC or in one character (C1). Source: ECMA-48, 5.3 to 5.6 and 8.3.
const controlSequence = /([0-?]*)[ -/]*([@-~])/y;
const shortSequence = /[ -/]*[0-~]/y;
const stringEnd = new RegExp(['\u0007', '\u009c', '\u001b\\\\'].join('|'), 'g');
const stringStarts = 'P]X^_';

/** Reads a line as a terminal does, and returns what is visible at its end. */
async function shownPieces(line: string, style: TextStyle): Promise<readonly Piece[]> {
  let pieces: Piece[] = [];
  let covered: Piece[] = [];
  let at = 0;
  let hasStringEnd = true;
  const add = (text: string) => {
    const last = pieces.at(-1);
    const own = pieces.length < maxPieces ? style.sequence : '';
    if (text === '') return;
    if (last?.style === own && last.texts.length < maxTexts) last.texts.push(text);
    else pieces.push({ style: own, texts: [text] });
  };
  const erase = () => {
    if (isVisible(pieces)) covered = pieces;
    pieces = [];
  };
  const back = (count: number) => {
    for (let left = Math.min(count, 1000); left > 0; left -= 1) {
      const last = pieces.at(-1);
      if (!last) return;
      const text = last.texts.pop()?.slice(0, -1) ?? '';
      if (text !== '') last.texts.push(text);
      else if (last.texts.length === 0) pieces.pop();
    }
  };
  const command = (parameters: string, name: string) => {
    const count = Number.parseInt(parameters, 10) || 1;
    if (name === 'm') {
      if (/^[\d;:]*$/.test(parameters)) style.apply(parameters);
    } else if (name === 'D') back(count);
    else if (name === 'C' || (name === 'G' && count > 1)) add(' ');
    else if ('ABEFGHdfu'.includes(name) || (name === 'K' && /^[12]$/.test(parameters))) erase();
  };
  /** Skips the sequence after its introducer. Returns false for one that is not whole. */
  const skip = (introducer: string): boolean => {
    if (introducer === '[') {
      controlSequence.lastIndex = at;
      const [all, parameters = '', name = ''] = controlSequence.exec(line) ?? [];
      if (all === undefined) return false;
      at += all.length;
      command(parameters, name);
      return true;
    }
    if (stringStarts.includes(introducer)) {
      stringEnd.lastIndex = at;
      hasStringEnd &&= stringEnd.test(line);
      if (hasStringEnd) at = stringEnd.lastIndex;
      return hasStringEnd;
    }
    return false;
  };

  for (let count = 1; ; count += 1) {
    if (count % pauseControls === 0) await pauseTurn();
    control.lastIndex = at;
    const found = control.exec(line);
    if (!found) break;
    add(line.slice(at, found.index));
    at = found.index + 1;
    const code = line.charCodeAt(found.index);
    if (code === 13) erase();
    else if (code === 8) back(1);
    else if (code === 0x1b) {
      const introducer = line[at] ?? ' ';
      if (introducer === '[' || stringStarts.includes(introducer)) {
        at += 1;
        if (!skip(introducer)) add('\ufffd');
      } else {
        shortSequence.lastIndex = at;
        if (shortSequence.test(line)) at = shortSequence.lastIndex;
      }
    } else if (code < 0x80 || !skip(String.fromCharCode(code - 0x40))) add('\ufffd');
  }
  add(line.slice(at));
  return isVisible(pieces) ? pieces : covered.length > 0 ? covered : pieces;
}

function isVisible(pieces: readonly Piece[]): boolean {
  return pieces.some(({ texts }) => texts.some(text => /\S/.test(text)));
}

// Codes of decorations by the code that ends them. Source: ECMA-48, 8.3.117 (SGR). Blinking and hidden text are not kept.
const endsOf = new Map([
  [22, [1, 2]],
  [23, [3]],
  [24, [4]],
  [27, [7]],
  [29, [9]],
]);
const decorations = new Set([...endsOf.values()].flat());
const longestStyle = 64;

/** The colours and decorations that a program has set for its output. */
class TextStyle {
  #front = '';
  #ground = '';
  readonly #decorations = new Set<number>();
  #sequence = '';

  /** The one sequence that sets all of it, whatever was set before; empty for plain text. */
  get sequence(): string {
    return this.#sequence;
  }

  /** Applies the parameters of a sequence for colours, such as `1;31`. Ignores unknown ones. */
  apply(parameters: string): void {
    if (parameters.length > longestStyle) return;
    const codes = parameters.split(';');
    for (let at = 0; at < codes.length; at += 1) {
      const [first = '', ...parts] = (codes[at] ?? '').split(':');
      const code = Number(first);
      if (code !== 38 && code !== 48) {
        this.#set(parts[0] === '0' && code === 4 ? 24 : code);
        continue;
      }
      // `38:2::1:2:3` has an empty part for the colour space; `38;2;1;2;3` has none.
      const isOne = parts.length > 0;
      const [kind = '', ...values] = isOne ? parts : codes.slice(at + 1, at + 5);
      const own = kind === '5' ? values.slice(0, 1) : kind === '2' ? values.slice(-3) : [];
      if (!isOne) at += 1 + own.length;
      if (own.length === 0 || !own.every(value => value !== '' && Number(value) < 256)) continue;
      const colour = `;${code};${kind};${own.map(Number).join(';')}`;
      if (code === 38) this.#front = colour;
      else this.#ground = colour;
    }
    const set = [...this.#decorations].sort().map(code => `;${code}`);
    const all = set.join('') + this.#front + this.#ground;
    this.#sequence = all === '' ? '' : `\u001b[0${all}m`;
  }

  #set(code: number): void {
    if (code === 0) {
      this.#front = '';
      this.#ground = '';
      this.#decorations.clear();
    } else if (decorations.has(code)) this.#decorations.add(code);
    else if (endsOf.has(code))
      for (const one of endsOf.get(code) ?? []) this.#decorations.delete(one);
    else if (code === 39) this.#front = '';
    else if (code === 49) this.#ground = '';
    else if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) this.#front = `;${code}`;
    else if ((code >= 40 && code < 48) || (code >= 100 && code < 108)) this.#ground = `;${code}`;
  }
}

// Logs have no other sequences: {@link LogText} removes them.
const introducer = '\u001b';
const escapeByte = 0x1b;
const styleReset = `${introducer}[0m`;
const colours = new RegExp(`${introducer}\\[[\\d;]*m`, 'g');
const unfinishedSequence = new RegExp(`${introducer}(?:\\[[\\d;]*)?$`);

/** Returns a text of a log without colours. */
export function withoutColours(text: string): string {
  return text.includes(introducer) ? text.replace(colours, '') : text;
}

/**
 * Returns a text of a log that was cut, without the sequence at its end that is not whole. Its last colour does not
 * reach into what follows.
 */
export function closedCut(text: string): string {
  const whole = text.replace(unfinishedSequence, '');
  const last = whole.lastIndexOf(introducer);
  return last < 0 || whole.startsWith(styleReset, last) ? whole : whole + styleReset;
}

/** Yields pieces of a log without colours. */
export async function* plainPieces(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let rest = '';
  for await (const piece of pieces) {
    if (rest === '' && !piece.includes(escapeByte)) {
      yield piece;
      continue;
    }
    // One character for each byte: a piece may end within a character.
    const text = rest + piece.toString('latin1');
    const [end = ''] = unfinishedSequence.exec(text) ?? [];
    rest = end;
    const plain = text.slice(0, text.length - end.length).replace(colours, '');
    if (plain !== '') yield Buffer.from(plain, 'latin1');
    await pauseTurn();
  }
  if (rest !== '') yield Buffer.from(rest, 'latin1');
}
