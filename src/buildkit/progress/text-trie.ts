/** A range of a text: from `start` to before `end`. */
export interface TextRange {
  readonly start: number;
  readonly end: number;
}

// The root, and the parent of nothing.
const root = 0;
const pieceLength = 32_768;

/**
 * Finds many texts in another text at once: its time depends on the length of that text, not on how many texts it
 * looks for or how similar they are. Source: Aho and Corasick, Efficient String Matching.
 */
export class TextTrie {
  /** Added texts that are not in the nodes. */
  readonly #pending: string[] = [];
  #count = 1;
  #parents = new Int32Array(64);
  #chars = new Uint16Array(64);
  #depths = new Int32Array(64);
  /** The first child of each node. Most nodes have one only, next to them in memory. */
  #firstChildren = new Int32Array(64);
  /** Hash table of the other children. */
  #others = new Int32Array(128);
  #otherCount = 0;
  /** By node: 1 if an added text ends there. */
  #ends = new Uint8Array(64);
  /** Undefined after a change. */
  #links: Links | undefined;

  /** Adds a text that is not empty. */
  add(text: string): void {
    this.#pending.push(text);
    this.#links = undefined;
  }

  /** Prepares the next search, which a search does otherwise. Yields after each piece of a few ms. */
  *prepare(): Generator<undefined, Links> {
    while (!this.#links) {
      let chars = 0;
      for (let text = this.#pending.pop(); text !== undefined; text = this.#pending.pop()) {
        this.#insert(text);
        chars += text.length;
        if (chars < pieceLength) continue;
        chars = 0;
        yield;
      }
      const count = this.#count;
      const links = yield* this.#link();
      // Texts may have been added between two pieces.
      if (this.#pending.length === 0 && this.#count === count) this.#links = links;
    }
    return this.#links;
  }

  #insert(text: string): void {
    let node = root;
    for (let at = 0; at < text.length; at += 1) {
      const char = text.charCodeAt(at);
      node = this.#child(node, char) || this.#addChild(node, char);
    }
    this.#ends[node] = 1;
  }

  /**
   * Returns the parts of a text that consist of added texts, in their order. Added texts that overlap are one part, and
   * those that only follow one another are several.
   */
  find(text: string): TextRange[] {
    const links = this.#prepareAll();
    const { longest } = links;
    const found: TextRange[] = [];
    let node = root;
    for (let at = 0; at < text.length; at += 1) {
      node = this.#next(node, text.charCodeAt(at), links);
      const length = longest[node] ?? 0;
      if (length === 0) continue;
      let start = at + 1 - length;
      for (let last = found.at(-1); last && last.end > start; last = found.at(-1)) {
        start = Math.min(start, last.start);
        found.pop();
      }
      found.push({ start, end: at + 1 });
    }
    return found;
  }

  #prepareAll(): Links {
    const pieces = this.prepare();
    for (;;) {
      const { done, value } = pieces.next();
      if (done) return value;
    }
  }

  /** Returns the node of the longest suffix of what was read that an added text begins with. */
  #next(from: number, char: number, { suffixes }: Links): number {
    for (let node = from; ; node = suffixes[node] ?? root) {
      const child = this.#child(node, char);
      if (child !== 0 || node === root) return child;
    }
  }

  /** Returns 0 if the node has no such child. */
  #child(node: number, char: number): number {
    const first = this.#firstChildren[node] ?? 0;
    if (first === 0 || this.#chars[first] === char) return first;
    const others = this.#others;
    let slot = slotOf(node, char, others.length);
    for (let child = others[slot] ?? 0; child !== 0; child = others[slot] ?? 0) {
      if (this.#parents[child] === node && this.#chars[child] === char) return child;
      slot = (slot + 1) % others.length;
    }
    return 0;
  }

  #addChild(node: number, char: number): number {
    const child = this.#count;
    if (child === this.#parents.length) this.#grow();
    this.#count += 1;
    this.#parents[child] = node;
    this.#chars[child] = char;
    this.#depths[child] = (this.#depths[node] ?? 0) + 1;
    if (this.#firstChildren[node] === 0) this.#firstChildren[node] = child;
    else this.#addOther(child);
    return child;
  }

  #grow(): void {
    const room = this.#parents.length * 2;
    const grown = (old: Int32Array) => {
      const array = new Int32Array(room);
      array.set(old);
      return array;
    };
    const [chars, ends] = [this.#chars, this.#ends];
    this.#chars = new Uint16Array(room);
    this.#chars.set(chars);
    this.#ends = new Uint8Array(room);
    this.#ends.set(ends);
    this.#parents = grown(this.#parents);
    this.#depths = grown(this.#depths);
    this.#firstChildren = grown(this.#firstChildren);
  }

  #addOther(child: number): void {
    this.#otherCount += 1;
    if (this.#otherCount * 2 > this.#others.length) {
      const old = this.#others;
      this.#others = new Int32Array(old.length * 2);
      for (const other of old) if (other !== 0) this.#place(other);
    }
    this.#place(child);
  }

  #place(child: number): void {
    const others = this.#others;
    let slot = slotOf(this.#parents[child] ?? root, this.#chars[child] ?? 0, others.length);
    while (others[slot] !== 0) slot = (slot + 1) % others.length;
    others[slot] = child;
  }

  *#link(): Generator<undefined, Links> {
    const links = {
      suffixes: new Int32Array(this.#count),
      longest: new Int32Array(this.#count),
    };
    // A suffix is shorter than the text that it ends, so shorter ones come first.
    const nodes = this.#byDepth();
    yield;
    for (let at = 0; at < nodes.length; at += 1) {
      if (at % pieceLength === pieceLength - 1) yield;
      const node = nodes[at] ?? root;
      const depth = this.#depths[node] ?? 0;
      const parent = this.#parents[node] ?? root;
      if (parent !== root) {
        const before = links.suffixes[parent] ?? root;
        links.suffixes[node] = this.#next(before, this.#chars[node] ?? 0, links);
      }
      links.longest[node] =
        this.#ends[node] === 1 ? depth : (links.longest[links.suffixes[node] ?? root] ?? 0);
    }
    return links;
  }

  /** Returns all nodes except the root, those of the shortest texts first. */
  #byDepth(): Int32Array {
    const depths = this.#depths;
    let deepest = 0;
    for (let node = 1; node < this.#count; node += 1) {
      deepest = Math.max(deepest, depths[node] ?? 0);
    }
    const places = new Int32Array(deepest + 2);
    for (let node = 1; node < this.#count; node += 1) {
      const next = (depths[node] ?? 0) + 1;
      places[next] = (places[next] ?? 0) + 1;
    }
    for (let depth = 1; depth < places.length; depth += 1) {
      places[depth] = (places[depth] ?? 0) + (places[depth - 1] ?? 0);
    }
    const nodes = new Int32Array(this.#count - 1);
    for (let node = 1; node < this.#count; node += 1) {
      const depth = depths[node] ?? 0;
      const place = places[depth] ?? 0;
      nodes[place] = node;
      places[depth] = place + 1;
    }
    return nodes;
  }
}

/** Data that a search requires in addition to the nodes. */
interface Links {
  /** By node: the node of its longest proper suffix. */
  readonly suffixes: Int32Array;
  /** By node: the length of the longest added text that it ends with, or 0. */
  readonly longest: Int32Array;
}

/** @param size a power of two */
function slotOf(node: number, char: number, size: number): number {
  const mixed = Math.imul(node ^ Math.imul(char + 1, 0x9e3779b1), 0x85ebca6b);
  return (mixed ^ (mixed >>> 15)) & (size - 1);
}
