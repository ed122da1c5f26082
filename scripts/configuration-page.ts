import {
  accountFileSettings,
  builderShareSettings,
  builderTlsSettings,
  channelSettings,
  indexSettings,
  registrySettings,
  type Setting,
  settings,
  webhookSettings,
} from '../src/server/config/load.ts';

/** Returns the page about all settings, made from their schema. */
export function configurationPage(): string {
  return `# Configuration

An option of \`sluice serve\` wins over the environment, the environment over the YAML file that \`--config\` or
\`SLUICE_CONFIG\` names, and the file over the default. Relative paths in the file start at its directory.

| kind | written as |
|---|---|
| size | \`10 MiB\`, \`1.5 GB\`, or a number of bytes |
| time | \`500ms\`, \`30s\`, \`15m\`, \`36h\`, \`90d\` |
| rate | \`250/hour\` (second, minute, hour, day), \`0\` for none, \`off\` for no limit |
| list | a YAML list; in the environment separated by commas |

The server does not start with a wrong setting; the message names the setting and the line in the file.

| command | what it shows |
|---|---|
| \`sluice config\` | all settings as the server would use them, and where each comes from |
| \`sluice config --check FILE\` | all faults of a configuration file and of the files that it names |

\`npm run generate\` makes this page from the schema of the settings.

## All settings

| setting | variable | default | meaning |
|---|---|---|---|
${settings
  .filter(({ variable }) => variable !== undefined)
  .map(row)
  .join('\n')}

## Proxies

The environment variables \`HTTPS_PROXY\`, \`HTTP_PROXY\` and \`NO_PROXY\` (upper or lower case) apply to every connection
of the server to another host, also to the object store and to the service that gives it the credentials of a role (STS).
These are reached directly: PostgreSQL, builders, other replicas, the collector of traces, and the services that a cloud has inside its
machines and pods. A proxy is an \`http://\` or \`https://\` URL, with a name and password if it requires
them. \`NO_PROXY\` lists the hosts that are connected to directly, separated by commas: host names (with their subdomains),
addresses, networks such as \`10.0.0.0/8\`, each name or address with a port if needed, or \`*\`. List \`127.0.0.1\` and
\`localhost\` for registries on the same machine. Private addresses stay forbidden behind a proxy
([ADR 31](adr/0031-proxies-and-the-address-guard.md)): Sluice looks up the name and gives the proxy a checked
address. Where only the proxy can look up names, or its rules are about names, set \`upstream.proxyNames\`.

## Account files

In the configuration file only: \`accountFiles:\` lists \`htpasswd\` files. The rights of their accounts are listed here,
so that a line in such a file makes nobody an administrator. A name may occur once in all files and \`accounts\`.

| setting | default | meaning |
|---|---|---|
${accountFileSettings.map(registryRow).join('\n')}

\`\`\`yaml
accountFiles:
  - file: /etc/sluice/htpasswd
    repositories: { "team/*": push }
    administrators: [ada]
\`\`\`

\`htpasswd -B /etc/sluice/htpasswd ada\` adds an account or changes its password; \`htpasswd -D\` removes it. A removed
account loses its rights within seconds. A token that a registry client got with an old password lasts five minutes.

## Registries

In the configuration file only: \`registries:\` maps the exact host of a registry, with its port, to its settings. A
registry at a loopback, private or link-local address is refused unless it is listed.

| setting | default | meaning |
|---|---|---|
${registrySettings.map(registryRow).join('\n')}

\`\`\`yaml
registries:
  registry.example.com:
    username: reader
    password: secret
    anonymous: true      # these credentials also serve callers without a login
  127.0.0.1:5000:
    plainHttp: true
    blobs: cache
\`\`\`

## Conda channels

In the configuration file only: \`channels:\` maps the name or the base URL of a conda channel to its settings. They are
also those of the channels below it, such as \`team/label/dev\` below \`team\`, unless these are listed themselves. A name that
is not listed is a channel of \`https://conda.anaconda.org\`. \`main\` is \`pkgs/main\`, a channel of \`https://repo.anaconda.com\`.
\`defaults\` stands for \`pkgs/main\` and \`pkgs/r\`: list these, or \`defaults\` with a \`url\`.

A channel at a loopback, private or link-local address is refused unless it is listed with \`allowPrivateAddress: true\`. A
builder gets the \`url\` of a listed channel, and none of the other settings: [what that means](conda.md#private-channels).

| setting | default | meaning |
|---|---|---|
${channelSettings.map(registryRow).join('\n')}

\`\`\`yaml
channels:
  conda-forge:
    mirrors: [https://mirror.example.com/conda-forge]
  team:
    url: https://conda.example.com/team
    token: secret
  https://10.0.0.7/local:
    ca: local-ca.pem
    allowPrivateAddress: true
\`\`\`

## Webhooks

In the configuration file only: \`messages.webhooks:\` maps a name to the settings of a receiver: [what it gets](messages.md). A
receiver at a loopback, private or link-local address is refused without \`allowPrivateAddress: true\`.

| setting | default | meaning |
|---|---|---|
${webhookSettings.map(registryRow).join('\n')}

\`\`\`yaml
messages:
  webhooks:
    ci:
      address: https://ci.example.com/hooks/sluice
      secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
      events: [build.ended, image.pushed]
\`\`\`

## Indexes of Python packages

In the configuration file only: \`pypi:\` maps the base URL of an index of Python packages, or of a host that has the files of an
index, to its settings. Packages of pip come from \`https://pypi.org/simple\`: list that with a \`url\` to have them come from another
index. A name that this index does not have is not looked up anywhere else: a builder gets the same index, and where that has credentials,
packages of pip that require a builder are refused.

The entry of an index at \`https://HOST/PATH/simple\` is also for files below \`https://HOST/PATH\`, and that of \`https://HOST/simple\` for
files below \`/packages\` and \`/files\`. List all other folders of files, with their credentials. Queries of the addresses of files are
dropped: they may be signatures, and lock files have these addresses.

An index, or a host of files, at a loopback, private or link-local address is refused unless it is listed with
\`allowPrivateAddress: true\`.

| setting | default | meaning |
|---|---|---|
${indexSettings.map(registryRow).join('\n')}

\`\`\`yaml
pypi:
  https://pypi.org/simple:
    url: https://pypi.example.com/simple
    username: reader
    password: secret
\`\`\`

## Builders with TLS

In the configuration file only: \`buildkitTls:\` maps the address of a builder, as written in \`buildkit\`, to its
certificates. The files are checked at the start and read again after a change.

| setting | default | meaning |
|---|---|---|
${builderTlsSettings.map(registryRow).join('\n')}

\`\`\`yaml
buildkit: [tcp://builder-1.example.com:1234, tcp://10.0.0.7:1234]
buildkitTls:
  tcp://builder-1.example.com:1234: { ca: ca.pem, certificate: client.pem, key: client.key }
  tcp://10.0.0.7:1234: { ca: other-ca.pem, certificate: other.pem, key: other.key, serverName: builder-2 }
\`\`\`

## Several builders

A build goes to a builder that runs its platforms without emulation, if there is one. Among equal builders, the one with the
fewest builds for its weight gets it. A build waits while all builders that suit it best are full. A builder that does not
answer gets none.

Each address of the name in \`dns+tcp://name:port\` is one builder, such as each pod of a headless service of Kubernetes. The
name is looked up again every 5 s: a new builder gets builds, and one without an address finishes those that it has.
Certificates and shares of the name are for each of its builders, and its certificates must have the name.

In the configuration file only: \`buildkitShares:\` maps the address of a builder, as written in \`buildkit\`, to its share.

| setting | default | meaning |
|---|---|---|
${builderShareSettings.map(registryRow).join('\n')}

\`\`\`yaml
buildkit: [tcp://large.example.com:1234, 'dns+tcp://workers.sluice.svc.cluster.local:1234']
buildkitShares:
  tcp://large.example.com:1234: { weight: 4, builds: 8 }
  dns+tcp://workers.sluice.svc.cluster.local:1234: { builds: 2 }
\`\`\`
`;
}

function row({ path, variable, default: value, description }: Setting): string {
  return `| \`${path.join('.')}\` | \`${variable}\` | ${code(value)} | ${description} |`;
}

function registryRow({ path, default: value, description }: Setting): string {
  return `| \`${path.at(-1)}\` | ${code(value)} | ${description} |`;
}

function code(value: unknown): string {
  if (value === undefined || (typeof value === 'object' && Object.keys(value ?? {}).length === 0)) {
    return '';
  }
  return `\`${Array.isArray(value) ? value.join(',') : String(value)}\``;
}
