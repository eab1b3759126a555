"""An autoencoder learns to remove the noise from photographs: python examples/denoising.py.

It is trained on small patches of one of scikit-learn's photographs, and tested on the whole of another one. During
training, the dashboard's Media tab shows how well it cleans a part of the second photograph. The final picture is
written to denoised.png.
"""

import jupyter_dtf as dtf

NOISE = 0.1

with dtf.cluster(jobs={"worker": 2}) as cluster:
    import keras
    import numpy as np
    from keras import layers
    from sklearn.datasets import load_sample_image
    from sklearn.feature_extraction.image import extract_patches_2d

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    flower, china = (load_sample_image(name).astype("float32") / 255 for name in ("flower.jpg", "china.jpg"))
    patches = extract_patches_2d(flower, (16, 16), max_patches=3000, random_state=1)
    noisy = patches + random.normal(0, NOISE, patches.shape).astype("float32")

    image = keras.Input((None, None, 3))  # any size: patches during training, whole photographs afterwards
    hidden = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(image)
    hidden = layers.Conv2D(32, 3, padding="same", activation="relu")(hidden)
    hidden = layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu")(hidden)
    noise = layers.Conv2D(3, 3, padding="same")(layers.Concatenate()([hidden, image]))
    model = keras.Model(image, layers.Subtract()([image, noise]), name="denoising")
    model.compile(keras.optimizers.Adam(0.003), loss="mse")

    part = china[100:228, 200:328] + random.normal(0, NOISE, (128, 128, 3)).astype("float32")

    class Show(keras.callbacks.Callback):
        """Reports a picture after each epoch. Like all callbacks, it runs on the chief."""

        def on_epoch_end(self, epoch, logs=None):
            cleaned = self.model.predict(part[None], verbose=0)[0]
            dtf.report_image("part of a photograph", np.concatenate([part, cleaned], axis=1).clip(0, 1), step=epoch)

    cluster.fit(model, noisy, patches, batch_size=64, epochs=4, callbacks=[Show()])

    seen = china[:424] + random.normal(0, NOISE, china[:424].shape).astype("float32")
    cleaned = model.predict(seen[None], verbose=0)[0]
    before, after = (-10 * np.log10(np.mean((picture - china[:424]) ** 2)) for picture in (seen, cleaned))
    print(f"signal to noise: {before:.1f} dB before, {after:.1f} dB after")
    both = np.concatenate([seen[100:228, 200:328], cleaned[100:228, 200:328]], axis=1)
    keras.utils.save_img("denoised.png", both.clip(0, 1) * 255, scale=False)
