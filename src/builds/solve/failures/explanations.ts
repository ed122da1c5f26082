/** A message of BuildKit, and its meaning for the author of the Dockerfile. */
type Explanation = readonly [
  pattern: RegExp,
  explain: (found: RegExpExecArray, place: string, line: string) => string,
];

const closedAddress = 'a loopback, private or otherwise closed network address';

const explanations: readonly Explanation[] = [
  [
    /failed to (?:compute cache key|calculate checksum).*: not found/s,
    ([found], place, line) => {
      const path = /"\/?([^"]*)": not found$/.exec(found)?.[1];
      if (path === undefined) return `a file is missing${place}: ${found}`;
      return /\s--from=/.test(line)
        ? `a file is missing${place}: '/${path}' is not in the stage or image of --from`
        : `a file is missing${place}: '${path}' is not in the build context, whose files come with the request, as its buildContext (sluice build -f Dockerfile DIRECTORY)`;
    },
  ],
  [
    /source "(?:https?|git):\/\/([^"]*)" denied by policy/,
    ([, address = ''], place) =>
      `ADD from ${hostOf(address)} is refused${place}: it is at ${closedAddress}, or a registry. Send the file in the build context, or ask the operator to list the host in builds.privateHosts`,
  ],
  [
    /There is no SSH agent '([^']*)'/,
    ([, id], place) =>
      `the Dockerfile requires an SSH key with the id ${id}${place}: send the private key with the request, in its 'ssh' (sluice build --ssh ${id}=FILE)`,
  ],
  [
    /failed to load cache key: (.*)/s,
    ([, reason = ''], place, line) =>
      `${addressesIn(line) ?? 'what ADD names'} cannot be fetched${place}: ${reason}${/no route to host|host is unreachable/i.test(reason) ? `. It may be at ${closedAddress}, which builds cannot reach` : ''}`,
  ],
  [
    /\bsecret (\S+): not found/,
    ([, name], place) =>
      `the Dockerfile requires the secret ${name}${place}: send it with the request, in its 'secrets' (sluice build --secret id=${name},src=FILE)`,
  ],
  [
    /\bnetwork\.host is not allowed/,
    (_, place) => `RUN --network=host is not allowed here${place}: take the option out`,
  ],
  [
    /\bsecurity\.insecure is not allowed/,
    (_, place) => `RUN --security=insecure is not allowed here${place}: take the option out`,
  ],
];

/** Returns the host of an address without its protocol. */
function hostOf(address: string): string {
  const [authority = ''] = address.split(/[/?#]/, 1);
  return authority.slice(authority.lastIndexOf('@') + 1);
}

/** Returns the addresses in a line of a Dockerfile: BuildKit does not say which of them failed. */
function addressesIn(line: string): string | undefined {
  const found = line.match(/\bhttps?:\/\/[^\s"'\\]+/g) ?? [];
  const all = [...new Set(found)].slice(0, 5).join(' or ');
  return all === '' ? undefined : all.slice(0, 500);
}

/**
 * Returns what a message of BuildKit means and what to do; undefined for a message that is clear enough.
 *
 * @param place position in the Dockerfile, in brackets after a blank; empty if unknown
 * @param line text of that line, or the step that BuildKit made of it
 */
export function explained(message: string, place: string, line: string): string | undefined {
  for (const [pattern, explain] of explanations) {
    const found = pattern.exec(message);
    if (found) return explain(found, place, line);
  }
  return undefined;
}
