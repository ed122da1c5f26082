import { type Automaton, automatonOf, type Places } from './automaton.ts';

/** A text on which a pattern takes time that grows faster than the text: `start`, many times `pump`, `end`. */
export interface SlowText {
  readonly growth: 'polynomial' | 'exponential';
  readonly start: string;
  readonly pump: string;
  readonly end: string;
}

/** The state of a search that has not begun to match. */
const searching = -1;
/** Texts that are tried for one pair of loops. */
const mostTries = 20_000;

/**
 * Returns a text on which one search for the pattern takes more than linear time, or undefined. The text leads two
 * loops through the same characters: the end of the first and the beginning of the second can be anywhere between, and
 * a search that fails has tried all of them. A search from every character counts as a loop.
 * Source: Weideman et al., Analyzing Matching Time Behavior of Backtracking Regular Expression Matchers (2016).
 */
export function slowTextOf(pattern: RegExp): SlowText | undefined {
  const search = new Search(automatonOf(pattern), pattern.sticky);
  return search.exponential() ?? search.polynomial();
}

/**
 * Returns a text on which all searches together take more than linear time, though each of them finds something: the
 * pattern is applied from every character again, and reads to the end each time before it finds something short.
 */
export function slowRepeatsOf(pattern: RegExp): SlowText | undefined {
  return new Search(automatonOf(pattern), false).repeated();
}

/** The states that a search can be in after a text. */
interface Reached {
  readonly states: readonly number[];
  readonly isDone: boolean;
  readonly isDoneAtEnd: boolean;
}

interface Visit<State> {
  readonly state: State;
  readonly text: string;
}

class Search {
  readonly #automaton: Automaton;
  readonly #isSticky: boolean;
  readonly #reached = new Map<string, Reached>();
  readonly #loops: readonly number[];
  readonly #behind = new Map<number, ReadonlySet<number>>();

  constructor(automaton: Automaton, isSticky: boolean) {
    this.#automaton = automaton;
    this.#isSticky = isSticky;
    const all = Array.from({ length: automaton.size }, (_, state) => state);
    for (const state of [searching, ...all]) this.#behind.set(state, this.#allBehind(state));
    this.#loops = all.filter(state => this.#leads(state, state));
  }

  exponential(): SlowText | undefined {
    for (const loop of this.#loops) {
      for (const before of this.#textsTo(loop)) {
        const pump = this.#twoWays(loop);
        const end = pump === undefined ? undefined : this.#failing(before, pump);
        if (pump !== undefined && end !== undefined) {
          return { growth: 'exponential', start: before.text, pump, end };
        }
      }
    }
    return undefined;
  }

  polynomial(): SlowText | undefined {
    const first = this.#isSticky ? this.#loops : [searching, ...this.#loops];
    for (const from of first) {
      for (const to of this.#loops) {
        if (from === to || !this.#leads(from, to)) continue;
        for (const before of this.#textsTo(from)) {
          const found = this.#pump(from, to, before);
          if (found) return { growth: 'polynomial', start: before.text, ...found };
        }
      }
    }
    return undefined;
  }

  repeated(): SlowText | undefined {
    const { elsewhere } = this.#automaton;
    for (const to of this.#loops) {
      if (!this.#leads(searching, to)) continue;
      for (const pump of this.#pumps(searching, to)) {
        for (let offset = 0; offset < pump.length; offset += 1) {
          // A match that ends early has taken little of the text.
          const text = pump.slice(offset) + pump.repeat(3);
          const { state } = this.#afterAll(this.#reach([elsewhere]), text);
          if (!state.states.includes(to)) continue;
          const end = this.#failing({ state, text: '' }, pump);
          if (end !== undefined) return { growth: 'polynomial', start: '', pump, end };
        }
      }
    }
    return undefined;
  }

  #leads(from: number, to: number): boolean {
    return this.#behind.get(from)?.has(to) === true;
  }

  #allBehind(first: number): ReadonlySet<number> {
    const found = new Set<number>();
    const left = [first];
    for (let state = left.pop(); state !== undefined; state = left.pop()) {
      for (const character of this.#automaton.alphabet) {
        for (const next of this.#next(state, character)) {
          if (!found.has(next)) left.push(next);
          found.add(next);
        }
      }
    }
    return found;
  }

  #next(state: number, character: string): readonly number[] {
    if (state === searching) return [searching, ...this.#automaton.elsewhere.next];
    return this.#automaton.after(state, character)?.next ?? [];
  }

  #start(): Reached {
    return this.#reach([this.#automaton.atStart], !this.#isSticky);
  }

  #reach(places: readonly Places[], isSearching = false): Reached {
    const states = [...new Set(places.flatMap(({ next }) => next))];
    if (isSearching) states.push(searching);
    states.sort((one, other) => one - other);
    const isDone = places.some(place => place.isDone);
    const isDoneAtEnd = places.some(place => place.isDoneAtEnd);
    const key = `${states.join()} ${isDone} ${isDoneAtEnd}`;
    const known = this.#reached.get(key) ?? { states, isDone, isDoneAtEnd };
    this.#reached.set(key, known);
    return known;
  }

  #after({ states }: Reached, character: string): Reached {
    const { elsewhere } = this.#automaton;
    const isSearching = states.includes(searching);
    const places = states.flatMap(state => this.#automaton.after(state, character) ?? []);
    return this.#reach(isSearching ? [...places, elsewhere] : places, isSearching);
  }

  #afterAll(first: Reached, text: string): { readonly state: Reached; readonly isDone: boolean } {
    let state = first;
    let isDone = false;
    for (const character of text) {
      state = this.#after(state, character);
      isDone ||= state.isDone;
    }
    return { state, isDone };
  }

  /** Returns texts after which the search is in a state and has found nothing. */
  #textsTo(state: number): Visit<Reached>[] {
    const start = this.#start();
    const texts = this.#walk<Reached>(
      start,
      reached => `${reached.states}`,
      reached => (reached.isDone ? [] : this.#steps(reached)),
    );
    return texts
      .filter(({ state: { states, isDone } }) => !isDone && states.includes(state))
      .slice(0, 10);
  }

  #steps(reached: Reached): [string, Reached][] {
    return this.#automaton.alphabet.map(character => [character, this.#after(reached, character)]);
  }

  #pump(from: number, to: number, before: Visit<Reached>) {
    for (const pump of this.#pumps(from, to)) {
      const end = this.#failing(before, pump);
      if (end !== undefined) return { pump, end };
    }
    return undefined;
  }

  /** Returns texts that lead from each of two loops to itself, and from the first to the second. */
  #pumps(from: number, to: number): string[] {
    type Three = readonly [number, number, number];
    const visits = this.#walk<Three>(
      [from, from, to],
      three => three.join(),
      ([first, middle, last]) =>
        this.#automaton.alphabet.flatMap(character =>
          this.#within(first, character, from).flatMap(one =>
            this.#within(last, character, to).flatMap(three =>
              this.#next(middle, character)
                .filter(two => two === to || this.#leads(two, to))
                .map((two): [string, Three] => [character, [one, two, three]]),
            ),
          ),
        ),
    );
    return visits
      .filter(
        ({ state: [one, two, three], text }) =>
          text !== '' && one === from && two === to && three === to,
      )
      .map(({ text }) => text);
  }

  /** Returns the next states from which a loop goes on. */
  #within(state: number, character: string, loop: number): number[] {
    return this.#next(state, character).filter(next => next === loop || this.#leads(next, loop));
  }

  /** Returns a text that leads from a loop to itself in two ways. */
  #twoWays(loop: number): string | undefined {
    type Pair = readonly [number, number, boolean];
    const visits = this.#walk<Pair>(
      [loop, loop, false],
      pair => pair.join(),
      ([one, other, isApart]) =>
        this.#automaton.alphabet.flatMap(character => {
          const ones = this.#within(one, character, loop);
          const others = this.#within(other, character, loop);
          return [...ones.entries()].flatMap(([at, nextOne]) =>
            [...others.entries()].map(([otherAt, nextOther]): [string, Pair] => {
              const parts = isApart || nextOne !== nextOther || (one === other && at !== otherAt);
              return [character, [nextOne, nextOther, parts]];
            }),
          );
        }),
    );
    return visits.find(
      ({ state: [one, other, isApart], text }) =>
        text !== '' && one === loop && other === loop && isApart,
    )?.text;
  }

  /** Returns a text after which the search has failed, once the pump has been repeated; undefined if it never fails. */
  #failing(before: Visit<Reached>, pump: string): string | undefined {
    let state = before.state;
    for (let round = 0; round < 4; round += 1) {
      const after = this.#afterAll(state, pump);
      if (after.isDone) return undefined;
      state = after.state;
    }
    const ends = this.#walk<Reached>(
      state,
      ({ states, isDoneAtEnd }) => `${states} ${isDoneAtEnd}`,
      reached => this.#steps(reached).filter(([, next]) => !next.isDone),
    );
    return ends.find(({ state: { isDoneAtEnd } }) => !isDoneAtEnd)?.text;
  }

  /** Visits everything that a state leads to, nearest first, with the text on the way. */
  #walk<State>(
    first: State,
    keyOf: (state: State) => string,
    steps: (state: State) => readonly (readonly [string, State])[],
  ): Visit<State>[] {
    const found: Visit<State>[] = [{ state: first, text: '' }];
    const seen = new Set<string>();
    for (const { state, text } of found) {
      for (const [character, next] of steps(state)) {
        const key = keyOf(next);
        if (seen.has(key)) continue;
        seen.add(key);
        found.push({ state: next, text: text + character });
      }
      if (found.length > mostTries) break;
    }
    return found;
  }
}
