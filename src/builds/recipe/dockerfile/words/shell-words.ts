import { trim, trimStart } from '../../../../foundation/text.ts';
import { Budget, LimitError, removePattern, replacePattern, WordError } from './shell-pattern.ts';

/** Options for splitting and expanding a text. */
interface Lexing {
  /** The character that escapes the next one. */
  readonly escapeMark: string;
  /** Values of variables; an absent variable is unset. */
  readonly variables: ReadonlyMap<string, string>;
  /** Shared by all texts of a file; present where variables are substituted. */
  readonly budget?: Budget;
  /** Keeps quotes. */
  readonly keepQuotes?: boolean;
  /** Keeps escape characters. */
  readonly keepEscapes?: boolean;
  /** Keeps unset variables as they are written. */
  readonly keepUnset?: boolean;
}

const maxDepth = 100;

/** Returns the text with its variables substituted and its quotes removed. Throws {@link WordError}. */
export function expandWord(text: string, lexing: Lexing): string {
  return new Lexer(text, lexing).read('').text;
}

/** Returns the words of the text; substitutes variables before splitting. Throws {@link WordError}. */
export function splitWords(text: string, lexing: Lexing): string[] {
  return new Lexer(text, lexing).read('').words;
}

/**
 * Parses words and variables of a Dockerfile exactly as BuildKit does: the images found must be the images that it will
 * pull. Source: Dockerfile reference, Environment replacement; BuildKit's behaviour, `frontend/dockerfile/shell`.
 */
class Lexer {
  readonly #characters: readonly string[];
  readonly #lexing: Lexing;
  readonly #budget: Budget;
  #position = 0;
  #depth = 0;
  #keepEscapes: boolean;
  // The current word, shared by all depths: a substitution with a default value starts it again, which decides what
  // counts as a here-document.
  #word = '';

  constructor(text: string, lexing: Lexing) {
    this.#lexing = lexing;
    this.#budget = lexing.budget ?? new Budget();
    this.#budget.spend(text.length);
    this.#characters = [...text.replace(/^\ufeff/, '')];
    this.#keepEscapes = lexing.keepEscapes ?? false;
  }

  /** Reads to the stop character, or to the end if it is empty. */
  read(stop: string): { text: string; words: string[] } {
    let text = '';
    let inWord = false;
    const words: string[] = [];
    this.#word = '';
    const add = (piece: string) => {
      this.#word += piece;
      inWord = true;
    };
    const addSplit = (piece: string) => {
      for (const character of piece) {
        if (!isBlank(character)) add(character);
        else if (inWord && this.#word !== '') {
          words.push(this.#word);
          this.#word = '';
          inWord = false;
        }
      }
    };
    while (this.#peek() !== undefined) {
      const character = this.#next() as string;
      if (character === stop) return { text, words: this.#finish(words) };
      if (character === '$') {
        const value = this.#dollar();
        this.#budget.spend(value.length);
        text += value;
        addSplit(value);
      } else if (character === "'" || character === '"') {
        const quoted = character === "'" ? this.#singleQuoted() : this.#doubleQuoted();
        text += quoted;
        add(quoted);
      } else if (character === '<') {
        const piece = this.#angle();
        text += piece;
        add(piece);
      } else if (character === this.#lexing.escapeMark) {
        if (this.#keepEscapes) {
          text += character;
          add(character);
        }
        const escaped = this.#next();
        if (escaped === undefined) break;
        text += escaped;
        add(escaped);
      } else {
        text += character;
        addSplit(character);
      }
    }
    if (stop !== '') throw new WordError(`'${stop}' is missing at the end of a substitution`);
    return { text, words: this.#finish(words) };
  }

  #finish(words: string[]): string[] {
    if (this.#word !== '') words.push(this.#word);
    this.#word = '';
    return words;
  }

  #peek(): string | undefined {
    return this.#characters[this.#position];
  }

  #next(): string | undefined {
    return this.#characters[this.#position++];
  }

  #singleQuoted(): string {
    const end = this.#characters.indexOf("'", this.#position);
    if (end < 0) throw new WordError('a single quote is not closed');
    const inside = this.#characters.slice(this.#position, end).join('');
    this.#position = end + 1;
    return this.#lexing.keepQuotes ? `'${inside}'` : inside;
  }

  #doubleQuoted(): string {
    const { escapeMark, keepQuotes } = this.#lexing;
    let inside = '';
    for (;;) {
      const character = this.#next();
      if (character === undefined) throw new WordError('a double quote is not closed');
      if (character === '"') return keepQuotes ? `"${inside}"` : inside;
      if (character === '$') {
        const value = this.#dollar();
        this.#budget.spend(value.length);
        inside += value;
      } else if (character === escapeMark) {
        if (this.#keepEscapes) inside += character;
        const following = this.#peek();
        if (following === undefined) continue;
        const isEscaped = following === '"' || following === '$' || following === escapeMark;
        inside += isEscaped ? this.#next() : character;
      } else inside += character;
    }
  }

  // Reads `<`. Blanks may separate the `<<` of a here-document from its word.
  #angle(): string {
    if (this.#peek() !== '<') return '<';
    this.#next();
    let mark = '<<';
    while (['\t', '\r', ' '].includes(this.#peek() ?? '')) mark += this.#next();
    return mark;
  }

  #dollar(): string {
    if (this.#peek() !== '{') {
      const name = this.#name();
      if (name === '') return '$';
      const value = this.#lexing.variables.get(name);
      return value ?? (this.#lexing.keepUnset ? `$${name}` : '');
    }
    this.#next();
    const first = this.#peek();
    if (first === undefined) throw new WordError("'}' is missing at the end of a substitution");
    if ('{}:'.includes(first)) throw new WordError('a substitution does not name a variable');
    return this.#substitution(this.#name());
  }

  #substitution(name: string): string {
    const { variables, keepUnset } = this.#lexing;
    const value = variables.get(name);
    const isKept = keepUnset === true && value === undefined;
    let operator = this.#next() ?? '';
    if (operator === '}') return value ?? (isKept ? `\${${name}}` : '');
    if (operator === '/') return this.#replacement(name, value, isKept);
    const countsEmpty = operator === ':';
    if (countsEmpty) operator = this.#next() ?? '';
    const isPattern = operator === '#' || operator === '%';
    const isKnown = isPattern ? !countsEmpty : ['+', '-', '?'].includes(operator);
    // Operators that only a shell knows, such as ${name:1:2}, are accepted as long as nothing is to be substituted.
    if (!isKnown && (isPattern || !countsEmpty)) throw unknownOperator(operator);
    const word = this.#inside('}', isPattern);
    if (isKept) return `\${${name}${countsEmpty ? ':' : ''}${operator}${word}}`;
    if (!isKnown) throw unknownOperator(operator);
    const isGiven = value !== undefined && !(countsEmpty && value === '');
    switch (operator) {
      case '-':
        return isGiven ? value : word;
      case '+':
        return isGiven ? word : '';
      case '?':
        if (isGiven) return value;
        throw new WordError(
          `${name}: ${word || `is not allowed to be ${value === undefined ? 'unset' : 'empty'}`}`,
        );
      default:
        return removePattern(value ?? '', word, operator === '#' ? 'start' : 'end', this.#budget);
    }
  }

  #replacement(name: string, value: string | undefined, isKept: boolean): string {
    const isEvery = this.#peek() === '/';
    if (isEvery) this.#next();
    const pattern = this.#inside('/', true);
    const replacement = this.#inside('}', true);
    if (isKept) return `\${${name}/${pattern}/${replacement}}`;
    return replacePattern(value ?? '', pattern, replacement, isEvery, this.#budget);
  }

  #inside(stop: string, keepEscapes: boolean): string {
    const before = this.#keepEscapes;
    this.#keepEscapes = keepEscapes;
    this.#depth += 1;
    if (this.#depth > maxDepth) throw new LimitError('substitutions are nested too deep');
    const { text } = this.read(stop);
    this.#depth -= 1;
    this.#keepEscapes = before;
    return text;
  }

  /** Reads a name of letters, digits and underscores, or a single number or special parameter of the shell. */
  #name(): string {
    const first = this.#peek() ?? '';
    const isWhole = /^\p{Nd}$/u.test(first) ? /^\p{Nd}$/u : undefined;
    if (first !== '' && '@*#?-$!'.includes(first)) return this.#next() as string;
    let name = '';
    while ((isWhole ?? /^[\p{L}\p{Nd}_]$/u).test(this.#peek() ?? '')) name += this.#next();
    return name;
  }
}

function unknownOperator(operator: string): WordError {
  return new WordError(`a substitution has the operator '${operator}', which is unknown`);
}

const blank = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$/;

/** Returns whether a character is Unicode white space by Go's `unicode.IsSpace`: BuildKit trims and splits there. */
export function isBlank(character: string): boolean {
  const code = character.charCodeAt(0);
  // A fast path for nearly all characters, without a pattern: every character of a file is checked here.
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return blank.test(character);
}

export function withoutIndent(text: string): string {
  return trimStart(text, isBlank);
}

export function trimBlanks(text: string): string {
  return trim(text, isBlank);
}
