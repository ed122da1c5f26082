import { maskAddresses } from './address-mask.ts';

// Shorter ones would make every text unreadable, and are no secrets.
const shortest = 4;

/** Takes secrets out of texts. */
export class SecretMask {
  readonly #secrets = new Set<string>();

  /** Hides this from now on, and each line of it that is not short. */
  add(secret: string | Uint8Array): void {
    const text = typeof secret === 'string' ? secret : Buffer.from(secret).toString();
    for (const part of [text, ...text.split('\n')]) {
      if (part.trim().length >= shortest) this.#secrets.add(part.trim());
    }
  }

  /** Hides the secrets, and what addresses name as user and password. */
  apply(text: string): string {
    const longestFirst = [...this.#secrets].sort((one, other) => other.length - one.length);
    const masked = longestFirst.reduce((rest, secret) => rest.replaceAll(secret, '***'), text);
    return maskAddresses(masked);
  }
}
