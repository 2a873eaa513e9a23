// swift-tools-version: 6.2
import PackageDescription

let swiftSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
]

let package = Package(
    name: "ConvoyBenchmarks",
    products: [
        .executable(name: "convoy-bench", targets: ["ConvoyBench"]),
        .executable(name: "image-bench", targets: ["ImageBench"]),
    ],
    traits: [.trait(name: "Images", description: "Thumbnails. Needs gdk-pixbuf.")],
    dependencies: [
        .package(name: "Convoy", path: "..", traits: [.trait(name: "Images", condition: .when(traits: ["Images"]))])
    ],
    targets: [
        // The limit that everything is compared with: plain libcurl and epoll.
        .target(
            name: "CLimit", cSettings: [.treatAllWarnings(as: .error)],
            linkerSettings: [.linkedLibrary("curl")]),
        .executableTarget(
            name: "ConvoyBench",
            dependencies: [
                "CLimit",
                .product(name: "Convoy", package: "Convoy"),
                .product(name: "ConvoyTransport", package: "Convoy"),
                .product(name: "ConvoyTestSupport", package: "Convoy"),
            ],
            swiftSettings: swiftSettings),
        // Empty without the trait. Scripts/images.py runs it.
        .executableTarget(
            name: "ImageBench",
            dependencies: [
                .product(name: "Convoy", package: "Convoy"), .product(name: "ConvoyImage", package: "Convoy"),
            ],
            swiftSettings: swiftSettings),
    ]
)
