// Masking shorter texts would make every output unreadable, and they are not secrets.
const shortestSecret = 4;

/** Masks secrets in texts. Their user limits their size: 48 KiB take some 30 ms and 10 MB. */
export class SecretMask {
  // The secrets of a caller may have 10,000 lines: looking for one after the other would block all other callers.
  readonly #secrets = new TextTrie();

  /** Masks this secret from now on, and each of its lines that is not short. */
  add(secret: string | Uint8Array): void {
    const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString();
    for (const part of [text, ...text.split('\n')]) {
      if (part.trim().length >= shortestSecret) this.#secrets.add(part.trim());
    }
  }

  /** Masks the secrets, and user and password in addresses. Secrets that overlap are one `***`. */
  apply(text: string): string {
    const shown: string[] = [];
    let from = 0;
    for (const { start, end } of this.#secrets.find(text)) {
      shown.push(text.slice(from, start), '***');
      from = end;
    }
    return maskAddresses(from === 0 ? text : shown.join('') + text.slice(from));
  }
}

// User and password end at the last @ before the path. Matching stays fast: each attempt ends at the next slash.
const userInfo = /(:\/\/)[^\s/?#'"<>]+@/g;
// Matching stays fast: each match takes all of an address that can contain a token.
const webAddress = /\bhttps?:\/\/[^\s?#'"<>]+/gi;
// Source: conda, `split_anaconda_token`. The host of `https://t/` is no token.
const pathToken = /(?<!:\/)\/t\/[^/]+/g;

/**
 * Replaces secrets in every address of the text with `***`: user and password, such as `https://user:token@host`, and the
 * token of a conda channel in the path of a web address, such as `https://host/t/token/channel`.
 */
export function maskAddresses(text: string): string {
  if (!text.includes('://')) return text;
  const masked = text.replace(userInfo, '$1***@');
  if (!masked.includes('/t/')) return masked;
  return masked.replace(webAddress, address => address.replace(pathToken, '/t/***'));
}

/** A range of a text: from `start` to before `end`. */
interface TextRange {
  readonly start: number;
  readonly end: number;
}

/** The end of a text that an added text begins with. */
class Node {
  /** Its length. */
  readonly depth: number;
  /** Nearly every node has one child only. */
  char = '';
  child: Node | undefined;
  others: Map<string, Node> | undefined;
  isEnd = false;
  /** The length of the longest added text that it ends with, or 0. */
  longest = 0;
  /** The node of its longest proper suffix; undefined for the root. */
  suffix: Node | undefined;

  constructor(depth: number) {
    this.depth = depth;
  }

  childAt(char: string): Node | undefined {
    return this.char === char ? this.child : this.others?.get(char);
  }

  addChild(char: string): Node {
    const child = new Node(this.depth + 1);
    if (this.child) {
      this.others ??= new Map();
      this.others.set(char, child);
    } else [this.char, this.child] = [char, child];
    return child;
  }
}

/**
 * Finds many texts in another text at once: its time depends on the length of that text, not on how many texts it
 * looks for or how similar they are. It holds about 100 bytes for each character of the added texts. Source: Aho and
 * Corasick, Efficient String Matching.
 */
class TextTrie {
  readonly #root = new Node(0);
  #isLinked = true;

  /** Adds a text that is not empty. */
  add(text: string): void {
    let node = this.#root;
    for (let at = 0; at < text.length; at += 1) {
      const char = text.charAt(at);
      node = node.childAt(char) ?? node.addChild(char);
    }
    node.isEnd = true;
    this.#isLinked = false;
  }

  /**
   * Returns the parts of a text that consist of added texts, in their order. Added texts that overlap are one part, and
   * those that only follow one another are several.
   */
  find(text: string): TextRange[] {
    if (!this.#isLinked) this.#link();
    const found: TextRange[] = [];
    let node = this.#root;
    for (let at = 0; at < text.length; at += 1) {
      node = this.#next(node, text.charAt(at));
      if (node.longest === 0) continue;
      let start = at + 1 - node.longest;
      for (let last = found.at(-1); last && last.end > start; last = found.at(-1)) {
        start = Math.min(start, last.start);
        found.pop();
      }
      found.push({ start, end: at + 1 });
    }
    return found;
  }

  /** Returns the node of the longest suffix of what was read that an added text begins with. */
  #next(from: Node | undefined, char: string): Node {
    for (let node = from; node; node = node.suffix) {
      const child = node.childAt(char);
      if (child) return child;
    }
    return this.#root;
  }

  /** Sets the suffixes. A suffix is shorter than the text that it ends, so shorter ones come first. */
  #link(): void {
    const nodes = [this.#root];
    for (const node of nodes) {
      const link = (child: Node, char: string) => {
        child.suffix = this.#next(node.suffix, char);
        child.longest = child.isEnd ? child.depth : child.suffix.longest;
        nodes.push(child);
      };
      if (node.child) link(node.child, node.char);
      node.others?.forEach(link);
    }
    this.#isLinked = true;
  }
}
