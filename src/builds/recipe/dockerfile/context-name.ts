/**
 * Returns the name under which BuildKit looks up a named build context that replaces an image or a stage. It is the
 * shortest spelling of an image name: `alpine` for `docker.io/library/alpine:latest`. BuildKit treats two names as the
 * same if and only if these are equal: `registry-1.docker.io` is not Docker Hub here. Source:
 * github.com/distribution/reference, ParseNormalizedNamed and FamiliarString, as BuildKit's frontend/dockerui applies
 * them.
 */
export function contextName(image: string): string {
  const slash = image.indexOf('/');
  const first = slash < 0 ? '' : image.slice(0, slash);
  const isHost = /[.:A-Z]/.test(first) || first === 'localhost';
  const isHub = !isHost || first === 'docker.io' || first === 'index.docker.io';
  const path = isHost ? image.slice(slash + 1) : image;
  const short = isHub ? path.replace(/^library\/(?=[^/]+$)/, '') : `${first}/${path}`;
  return short.replace(/:latest$/, '');
}
