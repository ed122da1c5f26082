/** Examples for the OpenAPI document: an existing image that is served with another entrypoint. */
export const containerExample = {
  request: {
    containerImage: 'docker.io/library/alpine:3.20',
    containerPlatform: 'linux/amd64',
    containerConfig: { env: ['GREETING=hello'], workingDir: '/work' },
  },
  response: {
    requestId: 'b0b6a4e1c0de',
    containerToken: 'b0b6a4e1c0de',
    targetImage: 'sluice.example.com/ct/b0b6a4e1c0de/library/alpine:3.20',
    expiration: '2026-01-31T12:00:00.000Z',
    containerImage: 'docker.io/library/alpine:3.20',
    digest: 'sha256:77726ef6b57ddf65bb551896826ec38bc3e53f75cdde31354fbffb4f25238ebd',
    succeeded: true,
  },
  status: {
    id: 'b0b6a4e1c0de',
    status: 'DONE',
    succeeded: true,
    creationTime: '2026-01-30T00:00:00.000Z',
    duration: 0,
  },
};
