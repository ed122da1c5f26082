import { Fault } from '../../../foundation/fault.ts';

/** Throws the {@link Fault} for a request that cannot be built: 400. */
export function refuse(message: string): never {
  throw new Fault('bad-request', message, { phase: 'request' });
}

/** Returns a text of the request for use in a message: short, on one line. */
export function shown(text: string): string {
  const plain = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > 80 ? `'${plain.slice(0, 80)}...'` : `'${plain}'`;
}
