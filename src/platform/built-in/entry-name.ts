import { Fault } from '../../foundation/fault.ts';

const longestName = 100;

/** Returns the name of a token or of credentials without surrounding spaces. Throws a {@link Fault} (400). */
export function checkName(text: string): string {
  const name = text.trim();
  if (name === '' || name.length > longestName || /\p{C}/u.test(name)) {
    throw new Fault('bad-request', `'name' must have 1 to ${longestName} printable characters`, {
      phase: 'request',
    });
  }
  return name;
}
