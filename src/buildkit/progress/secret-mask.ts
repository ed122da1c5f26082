import { maskAddresses } from './address-mask.ts';
import { TextTrie } from './text-trie.ts';

// Masking shorter texts would make every output unreadable, and they are not secrets.
const shortest = 4;

/** Masks secrets in texts. Their user limits their size: 48 KiB take some 30 ms and 10 MB. */
export class SecretMask {
  // The secrets of a caller may have 10,000 lines: looking for one after the other would block all other callers.
  readonly #secrets = new TextTrie();

  /** Masks this secret from now on, and each of its lines that is not short. */
  add(secret: string | Uint8Array): void {
    const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString();
    for (const part of [text, ...text.split('\n')]) {
      if (part.trim().length >= shortest) this.#secrets.add(part.trim());
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
