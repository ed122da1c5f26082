import { STATUS_CODES } from 'node:http';
import type { Fault } from '../../foundation/fault.ts';
import { withoutToken } from '../../foundation/telemetry.ts';

// The buffers of proxies for a whole response head have 4 KiB or more.
const mostCharacters = 512;

/**
 * Returns the reason phrase for a fault: its headline as one line of printable ASCII, at most 512 characters.
 * Source: RFC 9112, section 4.
 */
export function reasonPhrase({ headline, status }: Pick<Fault, 'headline' | 'status'>): string {
  // Cut first: the message of a failed build may be long.
  const line = withoutToken(headline.slice(0, 2 * mostCharacters))
    .replace(/\s+/g, ' ')
    .replace(/[^ -~]/g, '?')
    .trim();
  if (line === '') return STATUS_CODES[status] ?? '';
  return line.length > mostCharacters ? `${line.slice(0, mostCharacters - 3)}...` : line;
}
