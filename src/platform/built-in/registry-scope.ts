import { Fault } from '../../foundation/fault.ts';
import { withoutSlashes } from '../../foundation/text/trim.ts';
import { parseReference, registryHost, withoutApi } from '../../oci/naming.ts';

// The grammar needs this much to distinguish a host from a path.
const inside = '/x/x';

/**
 * Returns the canonical spelling of the registry, or part of one, that credentials are for: `host[:port][/path]`,
 * without protocol. The default is Docker Hub, `docker.io`. Throws a {@link Fault} (400).
 */
export function registryScope(text = 'docker.io'): string {
  const name = withoutSlashes(withoutApi(text))
    // Docker writes Docker Hub into its configuration like this.
    .replace(/^(index\.docker\.io)\/v1$/i, '$1');
  if (registryHost(name) === undefined) throw refused();
  try {
    const { registry, repository } = parseReference(name + inside);
    return `${registry}/${repository}`.slice(0, -inside.length);
  } catch {
    throw refused();
  }
}

/** Leaves out the text, and any cause that contains it: it may be a password in the wrong place. */
function refused(): Fault {
  return new Fault(
    'bad-request',
    "'registry' is not the name of a registry: send its host, with a path if you want, such as quay.io/team; Docker Hub is docker.io",
    { phase: 'request' },
  );
}
