import { describe, expect, it } from 'vitest';

import { ApiError, RestApi } from '../../../src/api/rest';
import { fakeSettings } from '../fixtures';

describe('RestApi', () => {
  it('sends requests below the base URL, with escaped names', async () => {
    const { settings, seen } = fakeSettings();
    await new RestApi(settings).scaleCluster('a/b', { jobs: { worker: 4 } });
    expect(seen).toEqual([
      { method: 'PATCH', path: '/base/jupyter-dtf/api/clusters/a%2Fb', body: { jobs: { worker: 4 } } }
    ]);
  });

  it('accepts a response without a body', async () => {
    const { settings } = fakeSettings(() => new Response(null, { status: 204 }));
    await expect(new RestApi(settings).stopCluster('a')).resolves.toBeUndefined();
  });

  it("throws the server's error, with status and field", async () => {
    const body = { message: '`jobs.worker` must be from 1 to 64, got 0', error: 'InvalidInput', field: 'jobs.worker' };
    const { settings } = fakeSettings(() => new Response(JSON.stringify(body), { status: 400 }));
    const error = await new RestApi(settings).startCluster({}).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ message: body.message, status: 400, kind: 'InvalidInput', field: 'jobs.worker' });
  });

  it('throws the status when the response is not from the extension', async () => {
    const { settings } = fakeSettings(
      () => new Response('<html>no</html>', { status: 502, statusText: 'Bad Gateway' })
    );
    await expect(new RestApi(settings).status()).rejects.toMatchObject({ message: '502 Bad Gateway', status: 502 });
  });
});
