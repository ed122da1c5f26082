import { maskAddresses } from './address-mask.ts';

// Masking shorter texts would make every output unreadable, and they are not secrets.
const shortest = 4;

/** Masks secrets in texts. */
export class SecretMask {
  readonly #secrets = new Set<string>();

  /** Masks this secret from now on, and each of its lines that is not short. */
  add(secret: string | Uint8Array): void {
    const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString();
    for (const part of [text, ...text.split('\n')]) {
      if (part.trim().length >= shortest) this.#secrets.add(part.trim());
    }
  }

  /** Masks the secrets, and user and password in addresses. */
  apply(text: string): string {
    const longestFirst = [...this.#secrets].sort((one, other) => other.length - one.length);
    const masked = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
    return maskAddresses(masked);
  }
}
