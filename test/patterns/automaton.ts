import { type Piece, parsePattern } from './pattern-syntax.ts';

/** Where a match may be after some characters: before one of its characters, or at its end. */
export interface Places {
  /** Numbers of the next characters, each once for every way to them: at most twice. */
  readonly next: readonly number[];
  /** True when the match is complete here, whatever follows. */
  readonly isDone: boolean;
  /** True when the match is complete if the text ends here. */
  readonly isDoneAtEnd: boolean;
}

/** A pattern as an automaton without empty steps: a state is the character of the pattern that comes next. */
export interface Automaton {
  /** One representative of each kind of character that the pattern distinguishes. */
  readonly alphabet: readonly string[];
  /** Places before the first character of a text, and before any other. */
  readonly atStart: Places;
  readonly elsewhere: Places;
  /** Places after a character of the pattern has taken one of the text; undefined if it does not fit. */
  after(state: number, character: string): Places | undefined;
  readonly size: number;
}

type Step =
  | { readonly kind: 'take'; readonly state: number }
  | { readonly kind: 'split'; readonly to: number[] }
  | { readonly kind: 'start' | 'end' | 'if'; readonly to: number }
  | { readonly kind: 'done' }
  | { readonly kind: 'dead' };

/** Copies of a part that is repeated a bounded number of times: these cost a factor, never a power. */
const mostCopies = 3;

export function automatonOf({ source, flags }: RegExp): Automaton {
  const steps: Step[] = [{ kind: 'done' }, { kind: 'dead' }];
  const states: { readonly fits: RegExp; readonly then: number }[] = [];
  const single = flags.replace(/[gymd]/g, '');
  const add = (step: Step) => steps.push(step) - 1;

  const addCharacter = (text: string, then: number) => {
    states.push({ fits: new RegExp(`^(?:${text})$`, single), then });
    return add({ kind: 'take', state: states.length - 1 });
  };

  const addRepeat = (part: Piece, least: number, most: number, then: number): number => {
    let entry = then;
    if (most === Infinity) {
      const to = [then];
      entry = add({ kind: 'split', to });
      to.unshift(addPiece(part, entry));
    }
    const optional = most === Infinity ? 0 : Math.min(most - least, mostCopies);
    for (let copy = 0; copy < optional; copy += 1) {
      entry = add({ kind: 'split', to: [addPiece(part, entry), then] });
    }
    for (let copy = 0; copy < Math.min(least, mostCopies); copy += 1) entry = addPiece(part, entry);
    return entry;
  };

  /** Adds the steps of a part, and returns the first of them. */
  const addPiece = (piece: Piece, then: number): number => {
    switch (piece.kind) {
      case 'character':
        return addCharacter(piece.source, then);
      case 'sequence':
        return piece.parts.reduceRight((next, part) => addPiece(part, next), then);
      case 'choice':
        return add({ kind: 'split', to: piece.options.map(option => addPiece(option, then)) });
      case 'repeat':
        return addRepeat(piece.part, piece.least, piece.most, then);
      case 'ahead':
        return add({ kind: 'split', to: [addPiece(piece.part, 1), add({ kind: 'if', to: then })] });
      case 'behind':
        return add({ kind: 'if', to: then });
      case 'start': {
        const start = add({ kind: 'start', to: then });
        if (!flags.includes('m')) return start;
        return add({ kind: 'split', to: [addCharacter('\\n', then), start] });
      }
      case 'end':
        return flags.includes('m') ? then : add({ kind: 'end', to: then });
    }
  };

  /** Follows the steps that take no character. */
  const placesFrom = (first: number, isStart: boolean): Places => {
    const ways = new Map<number, number>();
    const way = new Map<number, number>();
    let isDone = false;
    let isDoneAtEnd = false;
    const walk = (at: number, isEnd: boolean, isSure: boolean): void => {
      const step = steps[at];
      const visits = way.get(at) ?? 0;
      // Twice: from the end of a repeated part to its beginning, through a repetition around it.
      if (step === undefined || visits > 1) return;
      way.set(at, visits + 1);
      if (step.kind === 'take' && !isEnd) {
        ways.set(step.state, Math.min((ways.get(step.state) ?? 0) + 1, 2));
      } else if (step.kind === 'split') {
        for (const to of step.to) walk(to, isEnd, isSure);
      } else if (step.kind === 'if') {
        walk(step.to, isEnd, false);
      } else if (step.kind === 'end') {
        walk(step.to, true, isSure);
      } else if (step.kind === 'start' && isStart) {
        walk(step.to, isEnd, isSure);
      } else if (step.kind === 'done' && isSure) {
        isDoneAtEnd = true;
        if (!isEnd) isDone = true;
      }
      way.set(at, visits);
    };
    walk(first, false, true);
    return {
      next: [...ways].flatMap(([to, count]) => Array<number>(count).fill(to)),
      isDone,
      isDoneAtEnd,
    };
  };

  const entry = addPiece(parsePattern(source), 0);
  const thens = states.map(({ then }) => placesFrom(then, false));
  return {
    alphabet: alphabetOf(
      states.map(({ fits }) => fits),
      /[uv]/.test(flags),
    ),
    atStart: placesFrom(entry, true),
    elsewhere: placesFrom(entry, false),
    after: (state, character) => (states[state]?.fits.test(character) ? thens[state] : undefined),
    size: states.length,
  };
}

const samples = [
  ...Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)),
  ...'\u017f\u0660\u0900\u1680\u2028\u2029\u202e\u3000\u4e00\ufeff\u{1f600}',
];

/** Returns a sample of each set of characters that fit the same parts of a pattern. */
function alphabetOf(parts: readonly RegExp[], isUnicode: boolean): string[] {
  const kinds = new Map<string, string>();
  for (const sample of samples) {
    if (sample.length > 1 && !isUnicode) continue;
    const kind = parts.map(part => (part.test(sample) ? 1 : 0)).join('');
    const known = kinds.get(kind);
    // A printable sample makes the better report.
    if (known === undefined || (known < ' ' && sample >= ' ')) kinds.set(kind, sample);
  }
  return [...kinds.values()];
}
