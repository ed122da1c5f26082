import { Fault } from '../../foundation/fault.ts';

/**
 * Returns the number in the parameter `n` of a listing; undefined when it is absent. Throws a {@link Fault} (400) for
 * a value that is not a number, with the code of the distribution registry. Source: OCI distribution specification
 * 1.1, Listing Tags; distribution, HTTP API V2, Errors.
 */
export function pageSize(query: URLSearchParams): number | undefined {
  const text = query.get('n');
  if (text === null) return undefined;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Fault('page-size-invalid', "'n' must be the number of entries wanted, such as n=100", {
    phase: 'request',
  });
}
