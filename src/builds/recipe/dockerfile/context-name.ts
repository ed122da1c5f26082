/**
 * The name by which BuildKit looks for a named build context in place of an image or a stage: the
 * shortest spelling of an image name, `alpine` of `docker.io/library/alpine:latest`. Two names mean the
 * same to it when, and only when, these are equal: `registry-1.docker.io` is not Docker Hub here.
 * Source: github.com/distribution/reference, ParseNormalizedNamed and FamiliarString, as BuildKit's
 * frontend/dockerui applies them.
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
