import { Fault } from '../../foundation/fault.ts';

/** Returns the fault for a method that a route does not allow. `Allow` lists its methods (RFC 9110, 15.5.6). */
export function wrongMethod(method: string, methods: readonly string[]): Fault {
  const allow = [...new Set(methods)].join(', ');
  return new Fault('method-not-allowed', `${method} is not allowed here: use ${allow}`, {
    phase: 'request',
    headers: { allow },
  });
}
